# Code and text that are substituted when they run
set name "world"
set code { set out "hello $name" }
# body
eval $code
set text [subst {hello $name, [string length $name]}]

# A switch of patterns
set path "/application/images/logo.png"
# body
switch -glob -- $path { "/api/*" { set out 1 } "/static/*" - "*.css" { set out 2 } "*.js" { set out 3 } "*.png" { set out 4 } default { set out 5 } }

# A switch of eight words
set method "PATCH"
# body
switch -exact -- $method { GET { set out 1 } HEAD { set out 2 } POST { set out 3 } PUT { set out 4 } DELETE { set out 5 } OPTIONS { set out 6 } PATCH { set out 7 } default { set out 8 } }

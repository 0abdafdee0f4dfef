# Comparisons of strings in conditions
set method "POST"
set path "/login"
# body
set out [expr {$method eq "GET" ? 1 : $method ne "POST" ? 2 : $path eq "/login" ? 3 : 4}]

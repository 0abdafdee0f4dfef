# Cut a path into pieces by position
set path "/application/images/logo.png"
# body
set out "[string range $path 1 11][string range $path 13 18][string range $path end-3 end]"

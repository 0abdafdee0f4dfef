# Glob patterns against a path
set path "/application/images/logo.png"
# body
set out [expr {[string match "*.png" $path] + [string match "/app*/logo.???" $path] + [string match "*.css" $path]}]

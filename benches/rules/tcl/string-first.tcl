# Find a needle from the front and from behind
set text "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36"
# body
set out [expr {[string first "Chrome" $text] + [string last "/" $text]}]

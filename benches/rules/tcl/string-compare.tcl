# Compare values of which one differs late
set a "/application/images/logo.png"
set b "/application/images/logo.svg"
set out 0
# body
if { $a eq $b || [string compare $a $b] > 0 || [string equal -nocase $a $b] } { incr out }

# Replace all that match, parts kept
set text "a=1; b=22; c=333; d=4444"
# body
regsub -all {([a-z])=([0-9]+)} $text {\2:\1} out

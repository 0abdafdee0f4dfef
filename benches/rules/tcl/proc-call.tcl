# Call a procedure with three arguments and a default
proc area {width height {unit "cm"}} { return "[expr {$width * $height}]$unit" }
# body
set out [call area 3 4]

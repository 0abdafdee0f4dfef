# An array as a list, and its names
array set table {alpha 1 beta 2 gamma 3 delta 4 epsilon 5 zeta 6}
# body
set out "[llength [array get table]][llength [array names table e*]][info exists table(zeta)]"

# Binary fields there and back
# body
set packed [binary format Sca4H4 4242 17 "abcd" "beef"]
binary scan $packed Sca4H4 a b c d
set out "$a $b $c $d"

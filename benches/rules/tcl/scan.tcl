# scan an address
set address "192.168.17.254"
# body
scan $address "%d.%d.%d.%d" a b c d
set out [expr {$a << 24 | $b << 16 | $c << 8 | $d}]

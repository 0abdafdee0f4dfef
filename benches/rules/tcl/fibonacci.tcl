# Recursion: the 20th Fibonacci number
proc fib {n} { if { $n < 2 } { return $n }; return [expr {[call fib [expr {$n - 1}]] + [call fib [expr {$n - 2}]]}] }
# body
set out [call fib 20]

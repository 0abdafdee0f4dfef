# All numbers of a text
set text {10.1.2.3 - - [21/Nov/2026:10:11:12 +0000] 200 5120 0.042}
# body
set out [regexp -all -inline {[0-9]+} $text]

# format with several conversions
set number 4242
set word "word"
# body
set out [format "%08x %-10s|%5.2f %c %d%%" $number $word 3.14159 65 $number]

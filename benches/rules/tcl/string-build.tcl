# Put values into a line
set host "www.example.com"
set path "/index.html"
set status 302
# body
set out "HTTP/1.1 $status Found\r\nLocation: https://$host$path?[string length $path]\r\nConnection: close\r\n\r\n"

# Parts of a URL
set url "https://www.example.com:8443/path/to/page.html?name=value"
# body
regexp {^([a-z]+)://([^:/]+)(:([0-9]+))?(/[^?]*)(\?.*)?$} $url all scheme host colon port path query
set out "$scheme $host $port $path $query"

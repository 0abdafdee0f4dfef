# A class and a repetition
set path "/application/v2/images/logo-1234.png"
# body
set out [regexp {/logo-[0-9]+\.png$} $path]

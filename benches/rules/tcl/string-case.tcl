# Lower and upper case, trimmed
set host "  WWW.Example.COM  "
# body
set out [string tolower [string trim $host]][string toupper $host]

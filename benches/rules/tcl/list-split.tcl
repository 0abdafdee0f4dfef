# Take a query apart and put it together again
set query "name=value&first=1&second=2&third=3&fourth=4&fifth=5"
# body
set out [join [split $query "&"] ";"]

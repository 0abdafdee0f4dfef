# An error that is caught: a missing array element
array set cache {count 0}
set key "no such key"
# body
set out [catch { set value $cache($key) } message]

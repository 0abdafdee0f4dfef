# catch around what does not fail
array set cache {key value}
set key "key"
# body
set out [catch { if { $cache($key) eq "value" } then { } }]

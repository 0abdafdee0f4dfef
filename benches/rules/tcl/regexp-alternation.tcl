# One of several words anywhere, without regard to case
set agent "Mozilla/5.0 (compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm)"
# body
set out [regexp -nocase {googlebot|bingbot|yandex|baiduspider|duckduckbot} $agent]

# Shows a maintenance page instead of the service.
#
# `maintenance_when` says when: `always` (the rule is put on the virtual for as long as the work lasts), or `down`: whenever
# the virtual's pool has no member that works.
#
# The page is the file that the configuration names `maintenance_page` (under `ifiles`), or a plain one. Clients whose
# address is in the data group `maintenance_exempt` (address) see the service as always: for those who do the work. Answers
# are 503 with Retry-After, which search engines and monitors understand, and are not to be stored.

when RULE_INIT {
    set static::maintenance_when always
    # Seconds until clients are to try again.
    set static::maintenance_retry 300
    set static::maintenance_text "<!DOCTYPE html>\n<title>Maintenance</title>\n<p>We are working on this service. Please come back in a few minutes.</p>\n"
}

when HTTP_REQUEST {
    # Another rule may have answered.
    if { [HTTP::has_responded] } {
        return
    }
    if { $static::maintenance_when eq "down" } {
        if { [active_members [LB::server pool]] > 0 } {
            return
        }
    }
    if { [class exists maintenance_exempt] } {
        if { [class match [IP::client_addr] equals maintenance_exempt] } {
            return
        }
    }
    if { [catch { set maintenance_page [ifile get maintenance_page] }] } {
        set maintenance_page $static::maintenance_text
    }
    HTTP::respond 503 content $maintenance_page noserver Content-Type "text/html; charset=utf-8" \
        Retry-After $static::maintenance_retry Cache-Control "no-store"
}

//! What people type wrong, and what they are told.
#![allow(
    clippy::unwrap_used,
    reason = "a test may stop at what it did not expect"
)]

#[macro_use]
mod common;

mistakes! {
an_unknown_field_is_told_with_the_nearest: r#"
pools:
  app:
    membrs: [10.0.0.1:80]
"# => r#"
F:3:5: unknown field `membrs` in pool; did you mean `members`?
 3 |     membrs: [10.0.0.1:80]
   |     ^^^^^^
F:3:5: pool needs the field `members`
 3 |     membrs: [10.0.0.1:80]
   |     ^
"#

a_list_where_a_map_belongs: r#"
pools:
  app: [10.0.0.1:80]
"# => r#"
F:2:8: expected a map (pool), found a list
 2 |   app: [10.0.0.1:80]
   |        ^
"#

a_member_without_its_port: r#"
pools:
  app:
    members: [10.0.0.1]
"# => r#"
F:3:15: `10.0.0.1` is not an IP address or host name with a port, such as `10.0.0.1:80`, `[2001:db8::1]:80` or `app.internal:80`
 3 |     members: [10.0.0.1]
   |               ^^^^^^^^
"#

an_address_that_is_none_is_no_host_name: r#"
pools:
  app:
    members: [10.0.0.256:80]
"# => r#"
F:3:15: `10.0.0.256:80` is not an IP address or host name with a port, such as `10.0.0.1:80`, `[2001:db8::1]:80` or `app.internal:80`
 3 |     members: [10.0.0.256:80]
   |               ^^^^^^^^^^^^^
"#

a_number_out_of_range: r#"
pools:
  app:
    members: [{address: 10.0.0.1:80, weight: 257}]
"# => r#"
F:3:46: `257` is out of range: from 0 to 256
 3 |     members: [{address: 10.0.0.1:80, weight: 257}]
   |                                              ^^^
"#

two_members_of_one_name: r#"
pools:
  app:
    members: [10.0.0.1:80, 10.0.0.1:80]
"# => r#"
F:3:28: `10.0.0.1:80` is given twice; the first is at F:3:15
 3 |     members: [10.0.0.1:80, 10.0.0.1:80]
   |                            ^^^^^^^^^^^
"#

a_word_without_its_hyphen: r#"
pools:
  app:
    members: [10.0.0.1:80]
    balance: leastconnections
"# => r#"
F:4:14: unknown balance `leastconnections`; did you mean `least-connections`?
 4 |     balance: leastconnections
   |              ^^^^^^^^^^^^^^^^
"#

a_word_that_needs_a_value: r#"
pools:
  app:
    members: [10.0.0.1:80]
    balance: hash
"# => r#"
F:4:14: `hash` is not complete: it carries a value, and is written `{hash: …}`
 4 |     balance: hash
   |              ^^^^
"#

a_slip_in_the_key_of_a_choice: r#"
pools:
  app:
    members: [10.0.0.1:80]
    balance: {hsah: {on: source}}
"# => r#"
F:4:15: unknown balance `hsah`; did you mean `hash`?
 4 |     balance: {hsah: {on: source}}
   |               ^^^^
"#

a_reference_to_nothing_and_a_duration_without_unit: r#"
pools:
  app:
    members: [10.0.0.1:80]
    monitors: [wbe]
    timeouts: {connect: 3}
monitors:
  web: {type: tcp}
"# => r#"
F:4:16: no monitor is named `wbe`; did you mean `web`?
 4 |     monitors: [wbe]
   |                ^^^
F:5:25: `3` is not a duration with its unit, such as `250ms`, `2s`, `1m30s` or `1h`
 5 |     timeouts: {connect: 3}
   |                         ^
"#

several_errors_of_one_line_are_all_told: r#"
pools:
  app:
    members: [10.0.0.1:80]
    timeouts: {connect: 0s}
    retry: {budget: 20, on: [600, rset]}
"# => r#"
F:4:25: `0s` is out of range: from 1ms to 1h
 4 |     timeouts: {connect: 0s}
   |                         ^^
F:5:21: `20` is not a share from `0%` to `100%`
 5 |     retry: {budget: 20, on: [600, rset]}
   |                     ^^
F:5:30: `600` is out of range: from 400 to 599
 5 |     retry: {budget: 20, on: [600, rset]}
   |                              ^^^
F:5:35: unknown retry condition `rset`; did you mean `reset`?
 5 |     retry: {budget: 20, on: [600, rset]}
   |                                   ^^^^
"#

one_name_twice: r#"
pools:
  app:
    members: [10.0.0.1:80]
  app:
    members: []
"# => r#"
F:4:3: `app` is given twice; the first is at F:2:3
 4 |   app:
   |   ^^^
"#

a_name_with_a_space: r#"
pools:
  my pool:
    members: [10.0.0.1:80]
"# => r#"
F:2:3: `my pool` is not a name: up to 128 letters, digits, `.`, `_`, `-`, `:`, `/`
 2 |   my pool:
   |   ^^^^^^^
"#

one_address_listened_on_twice: r#"
virtuals:
  a: {listen: 127.0.0.1:80, pool: p}
  b: {listen: [127.0.0.1:80], pool: p}
pools:
  p: {members: []}
"# => r#"
F:3:16: `127.0.0.1:80` is already listened on at F:2:15
 3 |   b: {listen: [127.0.0.1:80], pool: p}
   |                ^^^^^^^^^^^^
"#

a_port_without_its_address: r#"
virtuals:
  a: {listen: 80, pool: nowhere}
"# => r#"
F:2:15: `80` is not an IP address with a port, such as `127.0.0.1:8080` or `[::]:8080`
 2 |   a: {listen: 80, pool: nowhere}
   |               ^^
F:2:25: no pool is named `nowhere`
 2 |   a: {listen: 80, pool: nowhere}
   |                         ^^^^^^^
"#

a_virtual_that_leads_nowhere: r#"
virtuals:
  a: {listen: 127.0.0.1:80}
"# => r#"
F:2:6: a virtual needs a `pool`, routes or rules, to know where to send clients
 2 |   a: {listen: 127.0.0.1:80}
   |      ^
"#

routes_on_a_tcp_virtual: r#"
virtuals:
  a:
    listen: 127.0.0.1:80
    protocol: tcp
    routes: [{respond: {}}]
    sni_routes: []
"# => r#"
F:5:5: `routes` has no place here: it is for virtuals of protocol http
 5 |     routes: [{respond: {}}]
   |     ^^^^^^
"#

mistakes_in_routes: r#"
virtuals:
  a:
    listen: 127.0.0.1:80
    routes:
      - {match: {path: api, method: [G T]}, respond: {status: 99}}
      - {redirect: {to: "https://{hots}/", status: 306}}
      - {match: {}}
"# => r#"
F:5:24: `api` is not a path: it begins with `/`
 5 |       - {match: {path: api, method: [G T]}, respond: {status: 99}}
   |                        ^^^
F:5:38: `G T` is not an HTTP method
 5 |       - {match: {path: api, method: [G T]}, respond: {status: 99}}
   |                                      ^^^
F:5:63: `99` is out of range: from 200 to 599
 5 |       - {match: {path: api, method: [G T]}, respond: {status: 99}}
   |                                                               ^^
F:6:25: unknown place in a template `hots`; did you mean `host`?
 6 |       - {redirect: {to: "https://{hots}/", status: 306}}
   |                         ^^^^^^^^^^^^^^^^^
F:7:9: a route needs one of `pool`, `redirect` and `respond`, and no more
 7 |       - {match: {}}
   |         ^
"#

mistakes_in_header_edits: r#"
virtuals:
  a:
    listen: 127.0.0.1:80
    routes: [{respond: {}}]
    headers:
      request: [{delete: Content-Length}, {set: {name: X Y, value: v}}, {delete: Host}, {add: {name: X, value: "a\r\nb: c"}}, {add: {name: X, value: "{"}}]
"# => r#"
F:6:56: `X Y` is not a header name: letters, digits and `-`
 6 |       request: [{delete: Content-Length}, {set: {name: X Y, value: v}}, {delete: Host}, {add: {name: X, value: "a\r\nb: c"}}, {add: {name: X, value: "{"}}]
   |                                                        ^^^
F:6:112: `a  b: c` is not a line of text without control characters
 6 |       request: [{delete: Content-Length}, {set: {name: X Y, value: v}}, {delete: Host}, {add: {name: X, value: "a\r\nb: c"}}, {add: {name: X, value: "{"}}]
   |                                                                                                                ^^^^^^^^^^^
F:6:150: `{` is not a template: write `{{` and `}}` for braces that are meant as such
 6 |       request: [{delete: Content-Length}, {set: {name: X Y, value: v}}, {delete: Host}, {add: {name: X, value: "a\r\nb: c"}}, {add: {name: X, value: "{"}}]
   |                                                                                                                                                      ^^^
"#

prefixes_with_bits_too_many: r#"
address_lists:
  office: [10.0.0.1/8, 10.0.0.0/33, ten]
virtuals:
  a: {listen: 127.0.0.1:80, routes: [{respond: {}}], allow: [offcie, 1.2.3, 1.2.3.4/33]}
"# => r#"
F:2:12: bits are set after the prefix length; the block that holds this address is 10.0.0.0/8
 2 |   office: [10.0.0.1/8, 10.0.0.0/33, ten]
   |            ^^^^^^^^^^
F:2:24: the prefix length 33 is too large: at most 32
 2 |   office: [10.0.0.1/8, 10.0.0.0/33, ten]
   |                        ^^^^^^^^^^^
F:2:37: `ten` is not an IPv4 or IPv6 address
 2 |   office: [10.0.0.1/8, 10.0.0.0/33, ten]
   |                                     ^^^
F:4:62: no address list is named `offcie`; did you mean `office`?
 4 |   a: {listen: 127.0.0.1:80, routes: [{respond: {}}], allow: [offcie, 1.2.3, 1.2.3.4/33]}
   |                                                              ^^^^^^
F:4:70: `1.2.3` is not an IPv4 or IPv6 address
 4 |   a: {listen: 127.0.0.1:80, routes: [{respond: {}}], allow: [offcie, 1.2.3, 1.2.3.4/33]}
   |                                                                      ^^^^^
F:4:77: the prefix length 33 is too large: at most 32
 4 |   a: {listen: 127.0.0.1:80, routes: [{respond: {}}], allow: [offcie, 1.2.3, 1.2.3.4/33]}
   |                                                                             ^^^^^^^^^^
"#

an_open_admin_interface: r#"
admin: {listen: 0.0.0.0:9900}
"# => r#"
F:1:9: an admin interface on an address that others can reach needs `token_file`
 1 | admin: {listen: 0.0.0.0:9900}
   |         ^^^^^^
"#

an_admin_interface_without_a_token: r#"
admin: {listen: 127.0.0.1:9900}
"# => r#"
F:1:9: an admin interface on TCP needs `token_file`, or `insecure_no_token: true` on loopback
 1 | admin: {listen: 127.0.0.1:9900}
   |         ^^^^^^
"#

a_secret_whose_file_is_missing: r#"
admin: {token_file: token, socket: }
"# => r#"
F:1:21: cannot read `/etc/token`: no such file
 1 | admin: {token_file: token, socket: }
   |                     ^^^^^
"#

monitors_with_fields_of_other_types: r#"
monitors:
  a: {type: tcp, path: /x, tls: {}}
  b: {type: http, expect: ok}
  c: {type: htp}
  d: {interval: 1s}
  e: {type: http, expect: {status: 200-}}
"# => r#"
F:2:18: `path` has no place here: it is for monitors of type http and https
 2 |   a: {type: tcp, path: /x, tls: {}}
   |                  ^^^^
F:2:28: `tls` has no place here: monitors of this type speak plain text; there are the types tls and https
 2 |   a: {type: tcp, path: /x, tls: {}}
   |                            ^^^
F:3:19: monitors of type http and https expect a map such as `{status: 200-399}`
 3 |   b: {type: http, expect: ok}
   |                   ^^^^^^
F:4:13: unknown monitor type `htp`; did you mean `http`?
 4 |   c: {type: htp}
   |             ^^^
F:5:6: monitor needs the field `type`
 5 |   d: {interval: 1s}
   |      ^
F:6:36: `200-` is not a set of statuses from 100 to 599, such as `200-299,304`
 6 |   e: {type: http, expect: {status: 200-}}
   |                                    ^^^^
"#

tls_profiles_that_cannot_work: r#"
tls_profiles:
  a: {certificates: [], min_version: 1.3, max_version: 1.2}
  b: {certificates: [{certificate: a.pem, key: a.key}], client_auth: {mode: required}, min_version: 1.1}
"# => r#"
F:2:7: a TLS profile needs at least one certificate
 2 |   a: {certificates: [], min_version: 1.3, max_version: 1.2}
   |       ^^^^^^^^^^^^
F:2:25: `min_version` is above `max_version`
 2 |   a: {certificates: [], min_version: 1.3, max_version: 1.2}
   |                         ^^^^^^^^^^^
F:3:36: cannot read `/etc/a.pem`: no such file
 3 |   b: {certificates: [{certificate: a.pem, key: a.key}], client_auth: {mode: required}, min_version: 1.1}
   |                                    ^^^^^
F:3:48: cannot read `/etc/a.key`: no such file
 3 |   b: {certificates: [{certificate: a.pem, key: a.key}], client_auth: {mode: required}, min_version: 1.1}
   |                                                ^^^^^
F:3:101: unknown TLS version `1.1`; did you mean `1.2`?
 3 |   b: {certificates: [{certificate: a.pem, key: a.key}], client_auth: {mode: required}, min_version: 1.1}
   |                                                                                                     ^^^
"#

a_field_twice: r#"
workers: 0
workers: 2
"# => r#"
F:1:10: `0` is out of range: from 1 to 1024
 1 | workers: 0
   |          ^
F:2:1: `workers` is given twice; the first is at F:1:1
 2 | workers: 2
   | ^^^^^^^
"#

a_word_where_a_number_belongs: r#"
workers: many
"# => r#"
F:1:10: `many` is not `auto` or a whole number
 1 | workers: many
   |          ^^^^
"#

mistakes_in_the_log: r#"
log: {access: {sample: 1.5, buffer: 1XB}, level: loud, format: null}
"# => r#"
F:1:24: `1.5` is out of range: from 0 to 1
 1 | log: {access: {sample: 1.5, buffer: 1XB}, level: loud, format: null}
   |                        ^^^
F:1:37: `1XB` is not a size, such as `4096`, `16KiB` or `1MB`
 1 | log: {access: {sample: 1.5, buffer: 1XB}, level: loud, format: null}
   |                                     ^^^
F:1:50: unknown log level `loud`; there are `error`, `warn`, `info`, `debug`, `trace`
 1 | log: {access: {sample: 1.5, buffer: 1XB}, level: loud, format: null}
   |                                                  ^^^^
F:1:64: expected one of `text`, `json`, found nothing
 1 | log: {access: {sample: 1.5, buffer: 1XB}, level: loud, format: null}
   |                                                                ^^^^
"#

a_tab_in_the_indentation: r#"
pools:
  app:
	members: []
"# => r#"
F:3:2: not valid YAML: tabs disallowed within this context (block indentation)
 3 | 	members: []
   | 	^
"#

a_list_without_its_end: r#"
pools:
  app:
    members: [10.0.0.1:80
"# => r#"
F:4:1: not valid YAML: while parsing a flow sequence, expected ',' or ']'
"#

a_colon_too_many: r#"
a: b: c
"# => r#"
F:1:5: not valid YAML: mapping values are not allowed in this context
 1 | a: b: c
   |     ^
"#

a_list_as_the_whole: r#"
- a
- b
"# => r#"
F:1:1: expected a map (the configuration), found a list
 1 | - a
   | ^
"#

two_documents: r#"
pools: {}
---
pools: {}
"# => r#"
F:2:1: a second document begins here; one file is one document
 2 | ---
   | ^^^
"#

environment_variables_that_are_not_there: r#"
user: ${NOBODY}
group: ${GROUP
"# => r#"
F:1:7: the environment variable `NOBODY` is not set; `${NOBODY:-text}` gives a default
 1 | user: ${NOBODY}
   |       ^^^^^^^^^
F:2:8: `${` begins an environment variable and needs a name and `}`; write `$${` for the characters themselves
 2 | group: ${GROUP
   |        ^^^^^^^
"#

an_alias_of_what_it_is_in: r#"
pools:
  app: &a {members: *a}
"# => r#"
F:2:21: not valid YAML: an alias within its own anchor
 2 |   app: &a {members: *a}
   |                     ^^
"#

numbers_people_do_not_write: r#"
limits: {connections: 1e3, drain: [1s]}
"# => r#"
F:1:23: `1e3` is not a whole number
 1 | limits: {connections: 1e3, drain: [1s]}
   |                       ^^^
F:1:35: expected a duration with its unit, such as `250ms`, `2s`, `1m30s` or `1h`, found a list
 1 | limits: {connections: 1e3, drain: [1s]}
   |                                   ^
"#

a_stranger_gets_the_whole_list: r#"
x: y
"# => r#"
F:1:1: unknown field `x` in the configuration; there are `workers`, `user`, `group`, `include`, `admin`, `log`, `limits`, `fast_path`, `address_lists`, `monitors`, `pools`, `tls_profiles`, `rules`, `data_groups`, `ifiles`, `geography`, `reputation`, `rule_limits`, `virtuals`
 1 | x: y
   | ^
"#

a_list_as_a_key: r#"
? [a]
: b
"# => r#"
F:1:3: not valid YAML: a key must be a plain text
 1 | ? [a]
   |   ^
"#

framing_fields_are_not_edited: r#"
virtuals:
  a:
    listen: 127.0.0.1:80
    routes: [{respond: {}}]
    headers:
      request: [{delete: Content-Length}, {delete: Host}]
"# => r#"
F:6:17: `content-length` is not editable: it belongs to the connection, and Headgate writes it itself
 6 |       request: [{delete: Content-Length}, {delete: Host}]
   |                 ^
F:6:43: `host` is not removable: a request without it is no valid request
 6 |       request: [{delete: Content-Length}, {delete: Host}]
   |                                           ^
"#

tls_that_is_passed_on_does_not_end_here: r#"
virtuals:
  a:
    listen: 127.0.0.1:80
    protocol: tls-passthrough
    tls: stie
    sni_routes: [{sni: a..b, pool: p}]
tls_profiles:
  site: {certificates: {certificate: x, kee: y}}
pools:
  p: {members: []}
"# => r#"
F:5:10: no TLS profile is named `stie`; did you mean `site`?
 5 |     tls: stie
   |          ^^^^
F:6:24: `a..b` is not a host name or pattern: `a.example`, `*.b.example` or `*`
 6 |     sni_routes: [{sni: a..b, pool: p}]
   |                        ^^^^
F:8:24: certificate needs the field `key`
 8 |   site: {certificates: {certificate: x, kee: y}}
   |                        ^
F:8:38: cannot read `/etc/x`: no such file
 8 |   site: {certificates: {certificate: x, kee: y}}
   |                                      ^
F:8:41: unknown field `kee` in certificate; did you mean `key`?
 8 |   site: {certificates: {certificate: x, kee: y}}
   |                                         ^^^
"#

a_member_certificate_without_its_key: r#"
pools:
  p:
    members: 10.0.0.1:443
    tls: {certificate: /c.pem, sni: 'a b', ca: }
"# => r#"
F:4:24: cannot read `/c.pem`: no such file
 4 |     tls: {certificate: /c.pem, sni: 'a b', ca: }
   |                        ^^^^^^
F:4:37: `a b` is not a host name
 4 |     tls: {certificate: /c.pem, sni: 'a b', ca: }
   |                                     ^^^^^
F:4:46: expected `system` or a file, found nothing
 4 |     tls: {certificate: /c.pem, sni: 'a b', ca: }
   |                                              ^
"#
}

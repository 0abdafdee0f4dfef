//! Commands and events of F5's that are known here but not implemented, so that loading a rule that uses one says so instead
//! of calling it unknown.

/// A command or event that is not implemented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Its name; one that ends with `*` stands for all that begin so.
    pub name: &'static str,
    /// Why, or what to use instead; empty for "not yet".
    pub why: &'static str,
}

/// Why a command or event of that name is not implemented; `None` where it is not known at all.
pub(crate) fn missing(name: &str) -> Option<&'static str> {
    let is = |missing: &&Missing| match missing.name.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => missing.name == name,
    };
    let mut all = COMMANDS.iter().chain(EVENTS);
    all.find(is).map(|missing| missing.why)
}

const fn of(name: &'static str, why: &'static str) -> Missing {
    Missing { name, why }
}

const NO_MODULE: &str = "there is no such module";
const NO_PROTOCOL: &str = "this protocol is not handled";
const NO_PROFILE: &str = "there is no such profile";
const NO_CACHE: &str = "there is no cache";
const NO_COMPRESSION: &str = "there is no compression";
const NO_LAYER: &str = "what is beneath connections is not shown to rules";

/// Commands, by name.
pub const COMMANDS: &[Missing] = &[
    of("AAA::*", NO_MODULE),
    of("ACCESS::*", NO_MODULE),
    of("ACL::*", NO_MODULE),
    of("ADAPT::*", NO_MODULE),
    of("ADM::*", NO_MODULE),
    of("ANTIFRAUD::*", NO_MODULE),
    of("ASM::*", NO_MODULE),
    of("ASN1::*", ""),
    of("AUTH::*", NO_MODULE),
    of("AVR::*", NO_MODULE),
    of("BIGPROTO::*", NO_PROTOCOL),
    of("BIGTCP::*", NO_PROFILE),
    of("BOTDEFENSE::*", NO_MODULE),
    of("BWC::*", "there are no bandwidth controllers"),
    of("CACHE::*", NO_CACHE),
    of("CATEGORY::*", NO_MODULE),
    of("CLASSIFICATION::*", NO_MODULE),
    of("CLASSIFY::*", NO_MODULE),
    of("COMPRESS::*", NO_COMPRESSION),
    of("CONNECTOR::*", NO_MODULE),
    of("DATAGRAM::*", NO_LAYER),
    of("DEMANGLE::*", NO_MODULE),
    of("DHCP::*", NO_PROTOCOL),
    of("DHCPv4::*", NO_PROTOCOL),
    of("DHCPv6::*", NO_PROTOCOL),
    of("DIAMETER::*", NO_PROTOCOL),
    of(
        "DNS::*",
        "messages of DNS are not taken apart; UDP::payload has their bytes",
    ),
    of(
        "DNSMSG::*",
        "messages of DNS are not taken apart; UDP::payload has their bytes",
    ),
    of("DOSL7::*", NO_MODULE),
    of("DSLITE::*", NO_PROTOCOL),
    of("ECA::*", NO_MODULE),
    of("FIX::*", NO_PROTOCOL),
    of("FLOW::*", NO_LAYER),
    of("FLOWTABLE::*", NO_LAYER),
    of("FTP::*", NO_PROTOCOL),
    of("GENERICMESSAGE::*", NO_PROTOCOL),
    of("GTP::*", NO_PROTOCOL),
    of("HA::*", ""),
    of("HTML::*", "use STREAM:: or HTTP::payload"),
    of("HTTP2::*", "HTTP/2 is not handled by rules"),
    of("HTTP::class", NO_MODULE),
    of(
        "HTTP::fallback",
        "use HTTP::respond or HTTP::redirect at LB_FAILED",
    ),
    of("HTTP::host_cookie", ""),
    of("HTTP::hsts", "insert the field Strict-Transport-Security"),
    of("HTTP::passthrough_reason", ""),
    of("HTTP::proxy", "there is no explicit proxy"),
    of("HTTP::reject_reason", ""),
    of("ICAP::*", NO_PROTOCOL),
    of("IKE::*", NO_PROTOCOL),
    of("ILX::*", NO_MODULE),
    of("IMAP::*", NO_PROTOCOL),
    of("IP::hops", NO_LAYER),
    of("IP::ingress_drop_rate", NO_LAYER),
    of("IP::ingress_rate_limit", NO_LAYER),
    of("IP::intelligence", "use IP::reputation"),
    of("IP::tos", NO_LAYER),
    of("IP::ttl", NO_LAYER),
    of("IPFIX::*", ""),
    of("ISESSION::*", NO_MODULE),
    of("IVS_ENTRY::*", NO_MODULE),
    of("L7CHECK::*", NO_MODULE),
    of("LB::bias", ""),
    of("LB::class", ""),
    of("LB::command", ""),
    of("LB::connect", ""),
    of("LB::connlimit", "limits are set in the configuration"),
    of("LB::context_id", ""),
    of(
        "LB::down",
        "members are taken out by their monitors or an operator",
    ),
    of("LB::dst_tag", ""),
    of("LB::enable_decisionlog", ""),
    of("LB::persist", "use persist lookup"),
    of("LB::prime", ""),
    of("LB::queue", "queues are set in the configuration"),
    of("LB::src_tag", ""),
    of(
        "LB::up",
        "members are brought back by their monitors or an operator",
    ),
    of("LDAP::*", NO_PROTOCOL),
    of("LINE::*", NO_PROFILE),
    of("LINK::*", NO_LAYER),
    of("LSN::*", NO_MODULE),
    of("MESSAGE::*", NO_PROTOCOL),
    of("MQTT::*", NO_PROTOCOL),
    of("MR::*", NO_PROTOCOL),
    of("NAME::*", "use RESOLV::lookup"),
    of("NSH::*", NO_LAYER),
    of("NTLM::*", NO_MODULE),
    of(
        "ONECONNECT::*",
        "connections to members are used again by themselves; LB::detach gives one up",
    ),
    of("PCP::*", NO_PROTOCOL),
    of("PEM::*", NO_MODULE),
    of("PLUGIN::*", NO_MODULE),
    of("POP3::*", NO_PROTOCOL),
    of("PROFILE::*", NO_PROFILE),
    of("PROTOCOL_INSPECTION::*", NO_MODULE),
    of("PSC::*", NO_MODULE),
    of("PSM::*", NO_MODULE),
    of("QOE::*", NO_MODULE),
    of(
        "RADIUS::*",
        "messages of RADIUS are not taken apart; UDP::payload has their bytes",
    ),
    of("RESOLVER::*", "use RESOLV::lookup"),
    of("REST::*", NO_MODULE),
    of("REWRITE::*", "use STREAM:: or HTTP::payload"),
    of("ROUTE::*", NO_LAYER),
    of("RTSP::*", NO_PROTOCOL),
    of("SCTP::*", NO_PROTOCOL),
    of("SDP::*", NO_PROTOCOL),
    of("SIP::*", NO_PROTOCOL),
    of("SIPALG::*", NO_PROTOCOL),
    of("SMTPS::*", NO_PROTOCOL),
    of("SOCKS::*", NO_PROTOCOL),
    of("SSE::*", ""),
    of("SSL::allow_dynamic_record_sizing", ""),
    of("SSL::authenticate", ""),
    of("SSL::c3d", NO_MODULE),
    of("SSL::cert_constraint", NO_MODULE),
    of("SSL::clientrandom", ""),
    of("SSL::collect", ""),
    of("SSL::forward_proxy", NO_MODULE),
    of("SSL::handshake", ""),
    of("SSL::is_renegotiation_secure", "there is no renegotiation"),
    of("SSL::maximum_record_size", ""),
    of("SSL::modssl_sessionid_headers", ""),
    of("SSL::nextproto", "use SSL::alpn"),
    of("SSL::payload", ""),
    of(
        "SSL::profile",
        "profiles of TLS are chosen by the name that the client asks for",
    ),
    of("SSL::release", ""),
    of("SSL::renegotiate", "there is no renegotiation"),
    of("SSL::respond", ""),
    of("SSL::secure_renegotiation", "there is no renegotiation"),
    of("SSL::session", ""),
    of("SSL::sessionid", "sessions are resumed by tickets"),
    of("SSL::sessionsecret", ""),
    of("SSL::sessionticket", ""),
    of("SSL::tls13_secret", ""),
    of("SSL::unclean_shutdown", ""),
    of("TAP::*", NO_MODULE),
    of("TCP::abc", NO_LAYER),
    of("TCP::analytics", NO_MODULE),
    of("TCP::autowin", NO_LAYER),
    of("TCP::bandwidth", NO_LAYER),
    of("TCP::congestion", NO_LAYER),
    of("TCP::delayed_ack", NO_LAYER),
    of("TCP::dsack", NO_LAYER),
    of("TCP::earlyrxmit", NO_LAYER),
    of("TCP::ecn", NO_LAYER),
    of("TCP::enhanced_loss_recovery", NO_LAYER),
    of("TCP::keepalive", NO_LAYER),
    of("TCP::limxmit", NO_LAYER),
    of("TCP::lossfilter*", NO_LAYER),
    of("TCP::mss", NO_LAYER),
    of("TCP::naglemode", "use TCP::nagle"),
    of("TCP::naglestate", "use TCP::nagle"),
    of("TCP::notify", ""),
    of("TCP::offset", ""),
    of("TCP::option", NO_LAYER),
    of("TCP::pacing", NO_LAYER),
    of("TCP::proxybuffer*", NO_LAYER),
    of("TCP::push_flag", NO_LAYER),
    of("TCP::rcv_scale", NO_LAYER),
    of("TCP::rcv_size", NO_LAYER),
    of("TCP::recvwnd", NO_LAYER),
    of("TCP::rexmt_thresh", NO_LAYER),
    of("TCP::rt_metrics_timeout", NO_LAYER),
    of("TCP::rto", NO_LAYER),
    of("TCP::rttvar", NO_LAYER),
    of("TCP::sendbuf", NO_LAYER),
    of("TCP::setmss", NO_LAYER),
    of("TCP::snd_cwnd", NO_LAYER),
    of("TCP::snd_scale", NO_LAYER),
    of("TCP::snd_ssthresh", NO_LAYER),
    of("TCP::snd_wnd", NO_LAYER),
    of("TCP::unused_port", ""),
    of("TDS::*", NO_PROTOCOL),
    of("TMM::cmp_group", "workers are not in groups"),
    of("TMM::cmp_groups", "workers are not in groups"),
    of("TMM::cmp_primary_group", "workers are not in groups"),
    of("TMM::cmp_cluster_primary", "workers are all alike"),
    of("UDP::hold", NO_LAYER),
    of("UDP::max_buf_pkts", NO_LAYER),
    of("UDP::max_rate", NO_LAYER),
    of("UDP::mss", NO_LAYER),
    of("UDP::release", NO_LAYER),
    of("URL::*", NO_MODULE),
    of("USER::*", NO_MODULE),
    of("VALIDATE::*", NO_MODULE),
    of("VDI::*", NO_MODULE),
    of("VLAN::*", NO_LAYER),
    of("WAM::*", NO_MODULE),
    of("WEBSSO::*", NO_MODULE),
    of("WS::*", "frames of WebSocket are not taken apart"),
    of("X509::issuer_name_hash", ""),
    of("XLAT::*", NO_LAYER),
    of("XML::*", NO_PROFILE),
    of("accumulate", "use TCP::collect"),
    of("clone", "traffic is not copied to other pools"),
    of("cpu", ""),
    of("crypto", "use CRYPTO::"),
    of(
        "forward",
        "connections end here: where the client meant to go is this machine",
    ),
    of("getopt", ""),
    of("html_escape", ""),
    of("lasthop", NO_LAYER),
    of("lb_bias", ""),
    of("link_qos", NO_LAYER),
    of("listen", "connections to oneself are not opened by rules"),
    of("llookup", ""),
    of("nexthop", NO_LAYER),
    of("peer_connect", ""),
    of(
        "priority",
        "a priority stands behind the event's name or on top of the rule",
    ),
    of("qos", NO_LAYER),
    of("rateclass", "there are no rate classes"),
    of("redirect", "use HTTP::redirect"),
    of("relate_client", ""),
    of("relate_server", ""),
    of("rmd160", "this digest is not offered"),
    of("server_send", ""),
    of(
        "snatpool",
        "there are no pools of source addresses; use snat",
    ),
    of("traffic_group", NO_LAYER),
    of("translate", NO_LAYER),
    of("urlcatblindquery", NO_MODULE),
    of("urlcatquery", NO_MODULE),
    of("vlan_id", NO_LAYER),
    of("when_all", ""),
];

/// Events, by name.
pub const EVENTS: &[Missing] = &[
    of("ACCESS_*", NO_MODULE),
    of("ADAPT_*", NO_MODULE),
    of("ANTIFRAUD_*", NO_MODULE),
    of("ASM_*", NO_MODULE),
    of("AUTH_*", NO_MODULE),
    of("AVR_*", NO_MODULE),
    of("BOTDEFENSE_*", NO_MODULE),
    of("CACHE_REQUEST", NO_CACHE),
    of("CACHE_RESPONSE", NO_CACHE),
    of("CACHE_UPDATE", NO_CACHE),
    of("CATEGORY_MATCHED", NO_MODULE),
    of("CLASSIFICATION_DETECTED", NO_MODULE),
    of("CLIENTSSL_DATA", ""),
    of("CLIENTSSL_PASSTHROUGH", ""),
    of("CLIENTSSL_SERVERHELLO_SEND", ""),
    of("CONNECTOR_OPEN", NO_MODULE),
    of("DIAMETER_*", NO_PROTOCOL),
    of("DNS_REQUEST", "there are no virtuals of UDP"),
    of("DNS_RESPONSE", "there are no virtuals of UDP"),
    of("ECA_*", NO_MODULE),
    of("EPI_NA_CHECK_HTTP_REQUEST", NO_MODULE),
    of("FIX_*", NO_PROTOCOL),
    of("FLOW_INIT", NO_LAYER),
    of("FTP_*", NO_PROTOCOL),
    of("GENERICMESSAGE_*", NO_PROTOCOL),
    of("GTP_*", NO_PROTOCOL),
    of("HTML_*", "use STREAM:: or HTTP::payload"),
    of("HTTP_CLASS_FAILED", NO_MODULE),
    of("HTTP_CLASS_SELECTED", NO_MODULE),
    of("HTTP_PROXY_CONNECT", "there is no explicit proxy"),
    of("HTTP_PROXY_REQUEST", "there is no explicit proxy"),
    of("HTTP_PROXY_RESPONSE", "there is no explicit proxy"),
    of("HTTP_REJECT", ""),
    of("HTTP_TAPPED", NO_MODULE),
    of("ICAP_*", NO_PROTOCOL),
    of("IN_DOSL7_ATTACK", NO_MODULE),
    of("IVS_ENTRY_*", NO_MODULE),
    of("JSON_*", ""),
    of("L7CHECK_*", NO_MODULE),
    of("LB_CONNECTED", ""),
    of("MQTT_*", NO_PROTOCOL),
    of("MR_*", NO_PROTOCOL),
    of("NAME_RESOLVED", "use RESOLV::lookup"),
    of("PCP_*", NO_PROTOCOL),
    of("PEM_*", NO_MODULE),
    of("PING_REQUEST_READY", NO_MODULE),
    of("PING_RESPONSE_READY", NO_MODULE),
    of("PROTOCOL_INSPECTION_MATCH", NO_MODULE),
    of("QOE_PARSE_DONE", NO_MODULE),
    of("RADIUS_*", NO_PROTOCOL),
    of("REWRITE_*", "use STREAM:: or HTTP::payload"),
    of("RTSP_*", NO_PROTOCOL),
    of("SA_PICKED", NO_LAYER),
    of("SERVERSSL_CLIENTHELLO_SEND", ""),
    of("SERVERSSL_DATA", ""),
    of("SERVERSSL_SERVERCERT", ""),
    of("SERVERSSL_SERVERHELLO", ""),
    of("SERVER_INIT", ""),
    of("SIP_*", NO_PROTOCOL),
    of("SOCKS_REQUEST", NO_PROTOCOL),
    of("SSE_*", ""),
    of("SWG_*", NO_MODULE),
    of("TAP_REQUEST", NO_MODULE),
    of("TDS_*", NO_PROTOCOL),
    of("USER_REQUEST", ""),
    of("USER_RESPONSE", ""),
    of("VDI_*", NO_MODULE),
    of("WS_*", "frames of WebSocket are not taken apart"),
    of("XML_*", NO_PROFILE),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::TABLES;

    #[test]
    fn what_is_implemented_is_not_listed() {
        for command in TABLES.iter().flat_map(|table| table.iter()) {
            assert_eq!(missing(command.name), None, "{}", command.name);
        }
        for event in crate::event::Event::ALL {
            assert_eq!(missing(event.name()), None, "{event}");
        }
    }

    #[test]
    fn families_are_known_by_their_beginning() {
        assert_eq!(missing("ASM::disable"), Some(NO_MODULE));
        assert_eq!(missing("TCP::lossfilterrate"), Some(NO_LAYER));
        assert_eq!(missing("SIP_REQUEST"), Some(NO_PROTOCOL));
        assert_eq!(missing("HTTP::frob"), None);
    }

    #[test]
    fn nothing_is_listed_twice() {
        for table in [COMMANDS, EVENTS] {
            for (n, one) in table.iter().enumerate() {
                assert!(
                    !table[..n].iter().any(|other| other.name == one.name),
                    "{}",
                    one.name
                );
            }
        }
    }
}

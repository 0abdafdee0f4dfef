//! Everything a head can be refused for: one variant a cause, each with the status to answer and a name to count it by.

use thiserror::Error;

macro_rules! head_errors {
    ($($(#[doc = $doc:literal])* $variant:ident, $status:literal, $reason:literal, $text:literal;)*) => {
        /// Why a message head was refused.
        ///
        /// Where on the wire: [`super::RequestHead::position`], [`super::ResponseHead::position`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
        #[non_exhaustive]
        pub enum HeadError {
            $($(#[doc = $doc])* #[error($text)] $variant,)*
        }

        impl HeadError {
            /// Every cause, for a counter's labels.
            pub const ALL: &'static [HeadError] = &[$(HeadError::$variant,)*];

            /// The status to answer a client with. In a response's head every cause means 502 for the client.
            pub const fn status(self) -> u16 {
                match self {
                    $(HeadError::$variant => $status,)*
                }
            }

            /// A short name that never changes, for counters and logs.
            pub const fn reason(self) -> &'static str {
                match self {
                    $(HeadError::$variant => $reason,)*
                }
            }
        }
    };
}

head_errors! {
    /// A line ends in LF without CR (RFC 9112 section 2.2).
    BareLf, 400, "bare-lf", "a line ends in LF without CR";
    /// A CR is not followed by LF (RFC 9112 section 2.2).
    BareCr, 400, "bare-cr", "a CR is not followed by LF";
    /// A NUL byte (RFC 9110 section 5.5).
    Nul, 400, "nul", "a NUL byte in the head";
    /// A control character in a field value or a reason phrase (RFC 9110 section 5.5).
    ControlInValue, 400, "control-in-value", "a control character in a field value";
    /// A field value goes on in the next line (RFC 9112 section 5.2).
    ObsFold, 400, "obs-fold", "a field value is folded into a second line";
    /// White space before a field's colon (RFC 9112 section 5.1).
    SpaceBeforeColon, 400, "space-before-colon", "white space between a field's name and its colon";
    /// White space before the first field (RFC 9112 section 2.2).
    LeadingSpace, 400, "leading-space", "white space before the first field";
    /// A field line without a name.
    EmptyName, 400, "empty-name", "a field without a name";
    /// A field name that is no token.
    BadName, 400, "bad-name", "a character that a field name may not hold";
    /// A field line without a colon.
    MissingColon, 400, "missing-colon", "a field line without a colon";
    /// More than one empty line before a request line.
    EmptyLines, 400, "empty-lines", "several empty lines before the request";
    /// The client speaks TLS where plain HTTP is served.
    TlsOnPlainPort, 400, "tls-on-plain-port", "a TLS handshake where plain HTTP is spoken";
    /// A method that is no token.
    BadMethod, 400, "bad-method", "a character that a method may not hold";
    /// A method of more than 32 bytes.
    MethodTooLong, 501, "method-too-long", "the method is too long";
    /// The request line is not three parts with a single space between.
    BadRequestLine, 400, "bad-request-line", "the request line is not `method target version`";
    /// A target that is neither a path, nor an absolute URI, nor `*`, or holds a forbidden character.
    BadTarget, 400, "bad-target", "the request target is malformed";
    /// A `#` in the target.
    FragmentInTarget, 400, "fragment-in-target", "the request target holds a fragment";
    /// `user@` in an absolute target (RFC 9110 section 4.2.4).
    UserinfoInTarget, 400, "userinfo-in-target", "the request target holds user information";
    /// The authority of an absolute target or of CONNECT is malformed.
    BadAuthority, 400, "bad-authority", "the authority in the request target is malformed";
    /// The target exceeds its limit.
    TargetTooLong, 414, "target-too-long", "the request target is too long";
    /// The head exceeds its limit in bytes.
    HeadTooLong, 431, "head-too-long", "the head is too long";
    /// The head exceeds its limit in fields.
    TooManyFields, 431, "too-many-fields", "the head has too many fields";
    /// The version is not written as `HTTP/d.d`.
    BadVersion, 400, "bad-version", "the version is malformed";
    /// A version other than 1.0 and 1.1.
    UnsupportedVersion, 505, "unsupported-version", "the version is neither HTTP/1.0 nor HTTP/1.1";
    /// The preface of HTTP/2 where HTTP/1 is spoken.
    Http2Preface, 505, "http2-preface", "an HTTP/2 preface where HTTP/1 is spoken";
    /// CONNECT, where it was not asked for.
    ConnectRefused, 501, "connect-refused", "CONNECT is not served here";
    /// `*` with a method other than OPTIONS.
    AsteriskNotOptions, 400, "asterisk-not-options", "the target * belongs to OPTIONS only";
    /// An HTTP/1.1 request without Host (RFC 9112 section 3.2).
    MissingHost, 400, "missing-host", "no Host field";
    /// More than one Host field.
    RepeatedHost, 400, "repeated-host", "more than one Host field";
    /// A Host that is no host with an optional port, or empty.
    BadHost, 400, "bad-host", "the Host field is malformed or empty";
    /// Host and the target's authority differ.
    HostMismatch, 400, "host-mismatch", "Host and the request target name different hosts";
    /// Content-Length more than once, in lines or in a list, even with one value.
    RepeatedLength, 400, "repeated-content-length", "Content-Length is given more than once";
    /// A Content-Length that is no decimal number of bytes, or too large.
    BadLength, 400, "bad-content-length", "Content-Length is not a number";
    /// Content-Length beside Transfer-Encoding (RFC 9112 section 6.3).
    LengthWithTransferEncoding, 400, "length-with-transfer-encoding", "both Content-Length and Transfer-Encoding";
    /// Transfer-Encoding more than once, or `chunked` more than once in it.
    RepeatedTransferEncoding, 400, "repeated-transfer-encoding", "Transfer-Encoding is given more than once";
    /// `chunked` is not the last transfer coding, or the list is malformed.
    ChunkedNotLast, 400, "chunked-not-last", "the last transfer coding is not chunked";
    /// A transfer coding before `chunked`.
    UnsupportedCoding, 501, "unsupported-transfer-coding", "a transfer coding other than chunked";
    /// Transfer-Encoding in an HTTP/1.0 message.
    TransferEncodingInHttp10, 400, "transfer-encoding-in-http10", "Transfer-Encoding in HTTP/1.0";
    /// An Expect other than `100-continue`.
    UnsupportedExpectation, 417, "unsupported-expectation", "an expectation other than 100-continue";
    /// A Connection option that is no token.
    BadConnection, 400, "bad-connection", "the Connection field is malformed";
    /// Connection names a field on which framing or routing rests.
    ConnectionNamesFraming, 400, "connection-names-framing", "Connection names a field that delimits or routes the message";
    /// A response's status is not three digits from 100 to 999.
    BadStatus, 502, "bad-status", "the status is not a three-digit number";
    /// A status line that is not `version status reason`.
    BadStatusLine, 502, "bad-status-line", "the status line is malformed";
    /// Transfer-Encoding or a length in a 1xx or 204 response (RFC 9112 section 6.1).
    BodyForbidden, 502, "body-forbidden", "a body announced with a status that has none";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_distinct_labels() {
        let mut seen = std::collections::HashSet::new();
        for error in HeadError::ALL {
            assert!(seen.insert(error.reason()), "{} twice", error.reason());
            assert!(
                error
                    .reason()
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            );
        }
    }
}

//! Certificates for tests: an authority, what it signs and what it revokes.

use crate::Dir;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer,
    DistinguishedName, DnType, IsCa, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams,
    SerialNumber, date_time_ymd,
};

/// An authority.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    /// Makes one of that name.
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, name);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Its own certificate, PEM.
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// Writes a certificate for names, `FILE.pem`, and its key, `FILE.key`.
    pub fn issue(&self, dir: &Dir, file: &str, names: &[&str]) {
        self.issue_numbered(dir, file, names, 1);
    }

    /// The same with a serial number.
    pub fn issue_numbered(&self, dir: &Dir, file: &str, names: &[&str], serial: u64) {
        let key = KeyPair::generate().unwrap();
        let all = names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let mut params = CertificateParams::new(all).unwrap();
        params.serial_number = Some(SerialNumber::from(serial));
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, names[0]);
        let certificate = params.signed_by(&key, &self.0).unwrap();
        dir.write(&format!("{file}.pem"), certificate.pem());
        dir.write(&format!("{file}.key"), key.serialize_pem());
    }

    /// A revocation list with a serial number, PEM.
    pub fn revoke(&self, serial: u64) -> String {
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2020, 1, 1),
            next_update: date_time_ymd(2100, 1, 1),
            crl_number: SerialNumber::from(1u64),
            issuing_distribution_point: None,
            revoked_certs: vec![RevokedCertParams {
                serial_number: SerialNumber::from(serial),
                revocation_time: date_time_ymd(2020, 1, 1),
                reason_code: None,
                invalidity_date: None,
            }],
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(&self.0).unwrap().pem().unwrap()
    }
}

//! [`Certificate`]: what rustls does not read of one. It refuses those of version 1, which have no extensions, and looks for a
//! server's name in the alternative names alone, which are one. `openssl x509 -req` leaves both out, and so do the certificates of
//! Triton's own tests; OpenSSL and gRPC, and perf_analyzer with them, take them.

use rustls::CertificateError;
use rustls::pki_types::{ServerName, SignatureVerificationAlgorithm, UnixTime};

use super::der::{Der, Element, tag};

/// The version of certificates that rustls reads, as it is written: it counts from 0.
const VERSION_3: &[u8] = &[tag::INTEGER, 1, 2];
/// The name of a subject (2.5.4.3), and the extension that has other names (2.5.29.17).
const COMMON_NAME: &[u8] = &[0x55, 4, 3];
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 29, 17];

/// How a signature is verified.
type Algorithm = dyn SignatureVerificationAlgorithm;

/// A certificate (RFC 5280, section 4.1).
pub(super) struct Certificate<'a> {
    /// What its issuer has signed, how, and the signature.
    signed: &'a [u8],
    algorithm: &'a [u8],
    signature: &'a [u8],
    version: Option<&'a [u8]>,
    issuer: &'a [u8],
    validity: &'a [u8],
    subject: &'a [u8],
    /// The key, with its kind.
    pub(super) key: &'a [u8],
    extensions: Option<&'a [u8]>,
}

impl<'a> Certificate<'a> {
    /// Reads one; `None` if it is damaged.
    pub(super) fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut parts = Der(Der(bytes).contents(tag::SEQUENCE)?);
        let signed = parts.element(tag::SEQUENCE)?;
        let (algorithm, signature) = (parts.contents(tag::SEQUENCE)?, parts.bits()?);
        let mut fields = Der(signed.contents);
        let version = fields.contents(tag::VERSION);
        fields.contents(tag::INTEGER)?;
        // It stands within what is signed, too (section 4.1.2.3).
        fields.contents(tag::SEQUENCE).filter(|within| *within == algorithm)?;
        let [issuer, validity, subject] =
            [fields.contents(tag::SEQUENCE)?, fields.contents(tag::SEQUENCE)?, fields.contents(tag::SEQUENCE)?];
        let key = fields.element(tag::SEQUENCE)?.whole;
        for identifier in tag::UNIQUE_IDENTIFIERS {
            fields.contents(identifier);
        }
        let extensions = fields.contents(tag::EXTENSIONS);
        Some(Self { signed: signed.whole, algorithm, signature, version, issuer, validity, subject, key, extensions })
    }

    /// One that rustls does not read; `None` if it does, or nobody can.
    pub(super) fn old(bytes: &'a [u8]) -> Option<Self> {
        Self::read(bytes)
            .filter(|certificate| certificate.version != Some(VERSION_3) && certificate.extensions.is_none())
    }

    /// Whether one of the `trusted` certificates is this one, or its issuer's.
    pub(super) fn is_trusted<'t>(
        &self,
        mut trusted: impl Iterator<Item = &'t [u8]>,
        algorithms: &[&Algorithm],
    ) -> bool {
        let has_signed = |issuer: &Certificate<'_>| {
            let mut possible = algorithms.iter().filter(|algorithm| *algorithm.signature_alg_id() == *self.algorithm);
            issuer.subject == self.issuer
                && possible.any(|algorithm| issuer.has_signed(*algorithm, self.signed, self.signature))
        };
        trusted.any(|bytes| {
            let other = Certificate::read(bytes);
            other.is_some_and(|other| {
                (other.signed, other.signature) == (self.signed, self.signature) || has_signed(&other)
            })
        })
    }

    /// Whether its key has made the signature of a message.
    pub(super) fn has_signed(&self, algorithm: &Algorithm, message: &[u8], signature: &[u8]) -> bool {
        let mut key = Der(Der(self.key).contents(tag::SEQUENCE).unwrap_or_default());
        let (Some(kind), Some(key)) = (key.contents(tag::SEQUENCE), key.bits()) else { return false };
        *algorithm.public_key_alg_id() == *kind && algorithm.verify_signature(key, message, signature).is_ok()
    }

    /// Fails if it is not valid at a time.
    ///
    /// # Errors
    /// Why.
    pub(super) fn check_time(&self, now: UnixTime) -> Result<(), CertificateError> {
        let mut times = Der(self.validity).map(|time| seconds(&time));
        match (times.next().flatten(), times.next().flatten()) {
            (Some(begin), _) if now.as_secs() < begin => Err(CertificateError::NotValidYet),
            (_, Some(end)) if now.as_secs() > end => Err(CertificateError::Expired),
            (Some(_), Some(_)) => Ok(()),
            _ => Err(CertificateError::BadEncoding),
        }
    }

    /// The name in its subject, which counts where it has no alternative names (RFC 2818, section 3.1).
    pub(super) fn name(&self) -> Option<&'a str> {
        let extensions = self.extensions.and_then(|all| Der(all).contents(tag::SEQUENCE)).unwrap_or_default();
        let identifies = |element: &Element<'a>, wanted: &[u8]| {
            let mut members = Der(element.contents);
            members.contents(tag::IDENTIFIER).filter(|identifier| *identifier == wanted)?;
            members.next()
        };
        if Der(extensions).any(|extension| identifies(&extension, ALTERNATIVE_NAMES).is_some()) {
            return None;
        }
        let members = Der(self.subject).flat_map(|set| Der(set.contents));
        let name = members.filter_map(|member| identifies(&member, COMMON_NAME)).last()?;
        std::str::from_utf8(name.contents).ok()
    }

    /// Whether it is the certificate of `host`, by that name.
    pub(super) fn is_of(&self, host: &ServerName<'_>) -> bool {
        let wanted = host.to_str();
        let wanted = wanted.trim_end_matches('.');
        let Some(name) = self.name() else { return false };
        let is_below = |domain: &str| {
            let above = wanted.split_once('.').filter(|_| matches!(host, ServerName::DnsName(_)));
            domain.contains('.') && above.is_some_and(|(_, above)| above.eq_ignore_ascii_case(domain))
        };
        name.eq_ignore_ascii_case(wanted) || name.strip_prefix("*.").is_some_and(is_below)
    }
}

/// The second of a time since 1970; 0 if it is before.
fn seconds(time: &Element<'_>) -> Option<u64> {
    let text = std::str::from_utf8(time.contents).ok()?.strip_suffix('Z')?;
    let digits = if time.tag == tag::UTC_TIME { 12 } else { 14 };
    let is_time = matches!(time.tag, tag::UTC_TIME | tag::GENERALIZED_TIME) && text.len() == digits;
    if !is_time || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (year, within) = text.split_at(digits - 10);
    let pair = |number: usize| within[2 * number..2 * number + 2].parse::<i64>().ok();
    // Two digits are those of 1950 to 2049 (RFC 5280, section 4.1.2.5.1).
    let year = match year.parse::<i64>().ok()? {
        year if time.tag == tag::GENERALIZED_TIME => year,
        year if year < 50 => 2000 + year,
        year => 1900 + year,
    };
    let days = days_since_1970(year, pair(0)?, pair(1)?);
    Some(u64::try_from(((days * 24 + pair(2)?) * 60 + pair(3)?) * 60 + pair(4)?).unwrap_or(0))
}

/// Of the Gregorian calendar. Years are counted from March, so that the day that some lack is their last.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year / 4 - year / 100 + year / 400;
    year * 365 + leap_days + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests;

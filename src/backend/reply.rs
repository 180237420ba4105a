//! Checks that a response can come from the model that was asked. The same rules hold over every transport.
//!
//! A backend asks [`ReplyChecks::is_due`] for each response, which reads one number in the steady state: only the first
//! response to every payload in a slot is checked, or all of them with `--validate-replies`.
//!
//! Triton passes on whatever a backend produces, whatever the model's configuration says. So a response that can be read
//! is a success, and one that contradicts the configuration is noted ([`Oddities`]). Which other ones count, the
//! [`ReplyRule`] says. The rules allow what working models do:
//!
//! * a dimension that the model leaves open may be anything, 0 included;
//! * the batch dimension is the request's, but may be anything in responses of decoupled models;
//! * it may be missing if that changes nothing (a batch of 1) or if the model leaves a dimension open, as python models
//!   commonly do;
//! * outputs may be missing, though not all of them; responses of decoupled models that only end a request are not
//!   checked.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::data::{PayloadId, count_strings};
use crate::model::{ModelSpec, TensorSpec};
use crate::{ClientSpec, InferError, Oddities, OddityKind, OutputView, Outputs};

/// Up to this many outputs are checked without an allocation.
const FEW_OUTPUTS: usize = 64;
/// Payloads that a slot tells apart; beyond these some share a bit, and one reply counts for both.
const MAX_BITS: usize = 1 << 14;
/// Allowance for what a response holds beside its tensors (names, shapes, parameters), and for outputs of another size
/// than the configuration says.
const SLACK: u64 = 4 << 20;
/// The same for each output.
const SLACK_EACH: u64 = 4 << 10;
/// How many times as large as configured a response may be.
const MAX_EXCESS: u64 = 16;

/// Which responses count as successes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplyRule {
    /// Those that can be read.
    #[default]
    Readable,
    /// All that the server calls a success, as under perf_analyzer's name.
    Any,
    /// Those that fit the model's configuration; every response is checked (`--validate-replies`).
    Fitting,
}

impl ReplyRule {
    fn counts(self, kind: OddityKind) -> bool {
        match self {
            Self::Readable => kind != OddityKind::Undecodable,
            Self::Any => true,
            Self::Fitting => false,
        }
    }
}

/// Why a response is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// What is wrong with it.
    pub kind: OddityKind,
    /// In words, for a message.
    pub why: String,
}

impl Misfit {
    /// A response that contradicts its model's configuration.
    fn contradiction(why: impl Display) -> Self {
        Self { kind: OddityKind::Contradiction, why: why.to_string() }
    }

    /// A response that cannot be read.
    pub fn undecodable(why: impl Display) -> Self {
        Self { kind: OddityKind::Undecodable, why: why.to_string() }
    }

    /// As the failure of a request for `model`.
    fn failure(&self, model: &ModelSpec) -> InferError {
        let why = &self.why;
        let message = match self.kind {
            OddityKind::Contradiction | OddityKind::Stray => {
                format!("the response does not fit model '{}': {why}", model.id)
            }
            OddityKind::Undecodable => format!("the response of model '{}' cannot be decoded: {why}", model.id),
        };
        InferError::new(InferError::MISFIT, message)
    }
}

/// Which responses of a slot must still be checked against the model. Shared by threads that receive responses at once.
#[derive(Debug)]
pub struct ReplyChecks {
    rule: ReplyRule,
    oddities: Arc<Oddities>,
    /// Number of bits not yet set; constant if `every` response is checked.
    left: AtomicU32,
    passed: Box<[AtomicU64]>,
}

impl ReplyChecks {
    /// For one slot of a client.
    pub fn new(spec: &ClientSpec) -> Self {
        Self::with_oddities(spec.payloads.len(), spec.replies, &spec.oddities)
    }

    fn with_oddities(payloads: usize, rule: ReplyRule, oddities: &Arc<Oddities>) -> Self {
        let words = payloads.clamp(1, MAX_BITS).div_ceil(64).next_power_of_two();
        let bits = payloads.clamp(1, words * 64) as u32;
        let passed = (0..words).map(|_| AtomicU64::new(0)).collect();
        Self { rule, oddities: Arc::clone(oddities), left: AtomicU32::new(bits), passed }
    }

    fn every(&self) -> bool {
        self.rule == ReplyRule::Fitting
    }

    /// Whether a response to that payload must be checked.
    #[inline]
    pub fn is_due(&self, payload: PayloadId) -> bool {
        self.any_due() && self.is_due_of(payload)
    }

    /// Whether any payload's response must still be checked.
    #[inline]
    pub fn any_due(&self) -> bool {
        self.left.load(Ordering::Relaxed) != 0
    }

    #[cold]
    fn is_due_of(&self, payload: PayloadId) -> bool {
        let (word, bit) = self.position(payload);
        self.every() || self.passed[word].load(Ordering::Relaxed) & bit == 0
    }

    /// Decides what becomes of a response to that payload, for `model`, in which a check `found` something or nothing.
    /// After one that fails, the next is checked again.
    ///
    /// # Errors
    /// What was found, if the response is a failure.
    pub fn settle(&self, payload: PayloadId, model: &ModelSpec, found: Result<(), Misfit>) -> Result<(), InferError> {
        if let Err(misfit) = found {
            if !self.rule.counts(misfit.kind) {
                return Err(misfit.failure(model));
            }
            self.oddities.add(misfit.kind, &model.id.name, &misfit.why);
        }
        self.pass(payload);
        Ok(())
    }

    fn pass(&self, payload: PayloadId) {
        self.oddities.checked();
        let (word, bit) = self.position(payload);
        let is_new = self.passed[word].fetch_or(bit, Ordering::Relaxed) & bit == 0;
        if is_new && !self.every() {
            self.left.fetch_sub(1, Ordering::Relaxed);
        }
    }

    #[inline]
    fn position(&self, payload: PayloadId) -> (usize, u64) {
        let index = payload.0 as usize;
        // The number of words is a power of two.
        ((index / 64) & (self.passed.len() - 1), 1 << (index % 64))
    }
}

/// Where a response says it is from.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReplySource<'a> {
    /// The model's name; absent if the transport has none.
    pub model: Option<&'a str>,
    /// The model's version, likewise.
    pub version: Option<&'a str>,
}

/// What a response must fit.
#[derive(Clone, Copy, Debug)]
pub struct ReplyForm<'a> {
    /// The model that was asked.
    pub model: &'a ModelSpec,
    /// Batch elements of the request.
    pub batch: u64,
    /// Whether the outputs' views hold their bytes. Those in shared memory do not, unless they were read.
    pub contents: bool,
}

impl ReplyForm<'_> {
    /// Checks a response that carries data against the model.
    ///
    /// # Errors
    /// What cannot be decoded, or else the first contradiction.
    pub fn check(&self, source: ReplySource<'_>, outputs: &dyn Outputs) -> Result<(), Misfit> {
        let (mut odd, mut unreadable) = (self.check_source(source).err(), None);
        // A model that declares no outputs may answer anything.
        if self.model.outputs.is_empty() {
            return odd.map_or(Ok(()), Err);
        }
        // With many payloads, first responses arrive during the load, so this avoids the heap.
        let (mut few, mut many) = ([false; FEW_OUTPUTS], Vec::new());
        let returned = match few.get_mut(..self.model.outputs.len()) {
            Some(returned) => returned,
            None => {
                many.resize(self.model.outputs.len(), false);
                &mut many[..]
            }
        };
        let (mut next, mut count) = (0, 0);
        outputs.visit(&mut |output| {
            count += 1;
            if self.contents && unreadable.is_none() && !holds(&output) {
                let OutputView { name, shape, bytes, .. } = output;
                let size = bytes.len();
                let why = format_args!("output '{name}' of shape {shape:?} comes with {size} bytes");
                unreadable = Some(Misfit::undecodable(why));
            }
            if odd.is_none() {
                odd = self.check_output(&output, returned, next).map(|index| next = index + 1).err();
            }
        });
        // Models may leave outputs out, such as identity models whose optional inputs were missing; but not all of
        // them.
        if count == 0 {
            odd = odd.or_else(|| Some(Misfit::contradiction("it has no outputs")));
        }
        unreadable.or(odd).map_or(Ok(()), Err)
    }

    fn check_source(&self, ReplySource { model, version }: ReplySource<'_>) -> Result<(), Misfit> {
        let ModelSpec { id, versions, .. } = self.model;
        if let Some(other) = model.filter(|name| *name != id.name) {
            return Err(Misfit::contradiction(format_args!("it is from model '{other}'")));
        }
        let Some(other) = version.filter(|version| !version.is_empty()) else { return Ok(()) };
        let is_known = match id.version {
            Some(asked) => other.parse() == Ok(asked),
            None => versions.is_empty() || versions.iter().any(|version| version == other),
        };
        if is_known { Ok(()) } else { Err(Misfit::contradiction(format_args!("it is from version '{other}'"))) }
    }

    /// Checks one output, most likely the model's output number `next`; returns its number.
    fn check_output(&self, output: &OutputView<'_>, returned: &mut [bool], next: usize) -> Result<usize, Misfit> {
        let OutputView { name, datatype, shape, .. } = *output;
        let outputs = &self.model.outputs;
        let is = |index: &usize| outputs[*index].name == name;
        let index = (next..outputs.len()).chain(0..next.min(outputs.len())).find(is);
        let index = index.ok_or_else(|| Misfit::contradiction(format_args!("the model has no output '{name}'")))?;
        let spec = &outputs[index];
        if std::mem::replace(&mut returned[index], true) {
            return Err(Misfit::contradiction(format_args!("it has output '{name}' twice")));
        }
        if datatype != spec.datatype {
            return Err(Misfit::contradiction(format_args!(
                "output '{name}' is {datatype} instead of {}",
                spec.datatype
            )));
        }
        if !self.fits(spec, shape) {
            let wanted = self.full_shape(spec);
            return Err(Misfit::contradiction(format_args!(
                "output '{name}' has shape {shape:?} instead of {wanted:?}"
            )));
        }
        Ok(index)
    }

    fn fits(&self, spec: &TensorSpec, shape: &[i64]) -> bool {
        let is = |shape: &[i64]| {
            let pairs = shape.iter().zip(&spec.shape);
            shape.len() == spec.shape.len() && pairs.clone().all(|(&got, &dim)| got >= 0 && (dim < 0 || got == dim))
        };
        if self.model.max_batch_size == 0 {
            return is(shape);
        }
        let any_batch = self.model.decoupled || spec.shape_tensor;
        let batched = |(&first, tail): (&i64, &[i64])| {
            is(tail) && first >= 0 && (any_batch || u64::try_from(first) == Ok(self.batch))
        };
        let may_lack_batch = spec.shape_tensor || self.batch == 1 || spec.shape.iter().any(|&dim| dim < 0);
        shape.split_first().is_some_and(batched) || (may_lack_batch && is(shape))
    }

    /// The most likely shape of an output, with -1 for open dimensions.
    fn full_shape(&self, spec: &TensorSpec) -> Vec<i64> {
        let batched = self.model.max_batch_size > 0 && !spec.shape_tensor;
        let batch = if self.model.decoupled { -1 } else { i64::try_from(self.batch).unwrap_or(-1) };
        batched.then_some(batch).into_iter().chain(spec.shape.iter().copied()).collect()
    }
}

/// Whether an output has as many bytes as its shape says.
fn holds(output: &OutputView<'_>) -> bool {
    let count = |product: u64, &dim: &i64| product.checked_mul(u64::try_from(dim).ok()?);
    let Some(elements) = output.shape.iter().try_fold(1, count) else { return false };
    match output.datatype.size() {
        Some(size) => elements.checked_mul(size as u64) == Some(output.bytes.len() as u64),
        None => count_strings(output.bytes) == Ok(elements),
    }
}

/// Largest response, uncompressed and in binary form, to a request of `batch` elements: many times what the model's outputs
/// take, because a response may contradict the configuration, or `otherwise` if the size of one is open, or the model
/// declares none.
pub fn reply_limit(model: &ModelSpec, batch: u64, otherwise: u64) -> u64 {
    if model.outputs.is_empty() {
        return otherwise;
    }
    let batch = if model.decoupled { batch.max(model.max_batch_size) } else { batch }.max(1);
    let excess = batch.saturating_mul(MAX_EXCESS);
    let room = |output: &TensorSpec| output.fixed_bytes()?.checked_mul(excess)?.checked_add(SLACK_EACH);
    let sum = |sum: u64, output: &TensorSpec| sum.checked_add(room(output)?);
    model.outputs.iter().try_fold(SLACK, sum).unwrap_or(otherwise)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{DataType, ModelId};

    type Output = (&'static str, DataType, Vec<i64>, Vec<u8>);

    struct Reply(Vec<Output>);

    impl Outputs for Reply {
        fn visit(&self, visitor: &mut dyn FnMut(OutputView<'_>)) {
            for (name, datatype, shape, bytes) in &self.0 {
                visitor(OutputView { name, datatype: *datatype, shape, bytes });
            }
        }
    }

    fn tensor(name: &str, datatype: DataType, shape: &[i64]) -> TensorSpec {
        TensorSpec { name: name.to_owned(), datatype, shape: shape.to_vec(), optional: false, shape_tensor: false }
    }

    fn model(max_batch_size: u64, outputs: Vec<TensorSpec>) -> ModelSpec {
        ModelSpec { max_batch_size, ..ModelSpec::plain(&ModelId::latest("m"), Vec::new(), outputs) }
    }

    fn output(name: &'static str, datatype: DataType, shape: &[i64]) -> Output {
        let elements = shape.iter().product::<i64>() as usize;
        (name, datatype, shape.to_vec(), vec![0; elements * datatype.size().unwrap_or(4)])
    }

    const FROM_M: ReplySource<'_> = ReplySource { model: Some("m"), version: None };

    fn misfit(model: &ModelSpec, batch: u64, outputs: &[Output]) -> Result<(), Misfit> {
        ReplyForm { model, batch, contents: true }.check(FROM_M, &Reply(outputs.to_vec()))
    }

    fn check(model: &ModelSpec, batch: u64, outputs: &[Output]) -> Result<(), String> {
        misfit(model, batch, outputs).map_err(|misfit| misfit.why)
    }

    fn refused(model: &ModelSpec, batch: u64, outputs: &[Output], word: &str) {
        let message = check(model, batch, outputs).unwrap_err();
        assert!(message.contains(word), "{message}");
    }

    use DataType::{Bytes, Fp32, Int8};

    #[test]
    fn every_kind_of_misfit_is_named() {
        let two = model(0, vec![tensor("A", Int8, &[2]), tensor("B", Fp32, &[-1, 3])]);
        let (a, b) = (output("A", Int8, &[2]), output("B", Fp32, &[5, 3]));
        for order in [[a.clone(), b.clone()], [b.clone(), a.clone()]] {
            assert_eq!(check(&two, 1, &order), Ok(()));
        }
        refused(&two, 1, &[], "has no outputs");
        assert_eq!(check(&two, 1, std::slice::from_ref(&b)), Ok(()), "some may be left out");
        refused(&two, 1, &[a.clone(), b.clone(), a.clone()], "'A' twice");
        refused(&two, 1, &[a.clone(), output("C", Fp32, &[5, 3])], "no output 'C'");
        refused(&two, 1, &[output("A", DataType::Uint8, &[2]), b.clone()], "UINT8 instead of INT8");
        for shape in [&[3][..], &[1, 2], &[2, 1], &[]] {
            refused(&two, 1, &[output("A", Int8, shape), b.clone()], "has shape");
        }
        refused(&two, 1, &[("A", Int8, vec![-2], Vec::new()), b.clone()], "comes with 0 bytes");
        refused(&two, 1, &[a.clone(), output("B", Fp32, &[5, 4])], "[5, 4] instead of [-1, 3]");
        refused(&two, 1, &[("A", Int8, vec![2], vec![0; 3]), b.clone()], "comes with 3 bytes");
        refused(&two, 1, &[a.clone(), ("B", Fp32, vec![i64::MAX, 3], Vec::new())], "comes with 0 bytes");
        let from_n = ReplySource { model: Some("n"), version: None };
        let other = ReplyForm { model: &two, batch: 1, contents: true }.check(from_n, &Reply(vec![a.clone()]));
        assert!(other.unwrap_err().why.contains("from model 'n'"));
        let elsewhere = ReplyForm { model: &two, batch: 1, contents: false };
        let placed = Reply(vec![("A", Int8, vec![2], Vec::new()), ("B", Fp32, vec![1, 3], Vec::new())]);
        assert_eq!(elsewhere.check(ReplySource::default(), &placed), Ok(()));
    }

    #[test]
    fn what_cannot_be_decoded_is_graver_than_a_contradiction() {
        let two = model(0, vec![tensor("A", Int8, &[2]), tensor("B", Fp32, &[3])]);
        let kind = |outputs: &[Output]| misfit(&two, 1, outputs).unwrap_err().kind;
        let (odd, cut) = (output("A", Int8, &[3]), ("B", Fp32, vec![3], vec![0; 11]));
        assert_eq!(kind(std::slice::from_ref(&odd)), OddityKind::Contradiction);
        assert_eq!(kind(&[odd.clone(), cut.clone()]), OddityKind::Undecodable);
        assert_eq!(kind(&[cut, odd]), OddityKind::Undecodable);
    }

    #[test]
    fn another_version_is_a_contradiction() {
        let mut m = model(0, Vec::new());
        let check = |m: &ModelSpec, version| {
            let source = ReplySource { version: Some(version), ..FROM_M };
            ReplyForm { model: m, batch: 1, contents: true }.check(source, &Reply(Vec::new())).is_ok()
        };
        assert!(check(&m, "7"), "nothing is known of its versions");
        m.versions = vec!["1".to_owned(), "3".to_owned()];
        assert!(check(&m, "3") && check(&m, "") && !check(&m, "2"));
        m.id.version = Some(1);
        assert!(check(&m, "1") && check(&m, "01") && !check(&m, "3"));
    }

    #[test]
    fn what_counts_is_noted_and_not_checked_again() {
        let found = |kind| Err(Misfit { kind, why: "because".to_owned() });
        let m = model(0, Vec::new());
        let (odd, unreadable) = (OddityKind::Contradiction, OddityKind::Undecodable);
        for (rule, counts) in
            [(ReplyRule::Readable, [true, false]), (ReplyRule::Any, [true, true]), (ReplyRule::Fitting, [false, false])]
        {
            for (kind, counts) in [odd, unreadable].into_iter().zip(counts) {
                let oddities = Arc::default();
                let checks = ReplyChecks::with_oddities(1, rule, &oddities);
                let settled = checks.settle(PayloadId(0), &m, found(kind));
                assert_eq!((settled.is_ok(), checks.is_due(PayloadId(0))), (counts, !counts), "{rule:?}");
                assert_eq!(oddities.all().iter().map(|odd| odd.count).sum::<u64>(), u64::from(counts));
                assert_eq!(oddities.number_checked(), u64::from(counts));
            }
        }
    }

    #[test]
    fn the_batch_is_the_requests_and_may_be_left_out_where_nothing_changes() {
        let fixed = model(8, vec![tensor("A", Int8, &[2])]);
        assert_eq!(check(&fixed, 3, &[output("A", Int8, &[3, 2])]), Ok(()));
        assert_eq!(check(&fixed, 1, &[output("A", Int8, &[2])]), Ok(()));
        for shape in [&[2, 2][..], &[2], &[3, 1], &[6], &[3, 2, 1]] {
            refused(&fixed, 3, &[output("A", Int8, shape)], "instead of [3, 2]");
        }
        let open = model(8, vec![tensor("A", Int8, &[-1])]);
        for shape in [&[3, 7][..], &[3, 0], &[3], &[4]] {
            assert_eq!(check(&open, 3, &[output("A", Int8, shape)]), Ok(()), "{shape:?}");
        }
        refused(&open, 3, &[output("A", Int8, &[2, 7])], "instead of [3, -1]");
        let mut shape_tensor = model(8, vec![tensor("A", Int8, &[2])]);
        shape_tensor.outputs[0].shape_tensor = true;
        assert_eq!(check(&shape_tensor, 3, &[output("A", Int8, &[2])]), Ok(()));
    }

    #[test]
    fn strings_empty_tensors_and_decoupled_responses_fit() {
        let text = model(0, vec![tensor("T", Bytes, &[2])]);
        assert_eq!(check(&text, 1, &[("T", Bytes, vec![2], vec![1, 0, 0, 0, b'x', 0, 0, 0, 0])]), Ok(()));
        for bytes in [vec![0; 4], vec![0; 12], vec![9, 0, 0, 0, 0, 0, 0, 0]] {
            refused(&text, 1, &[("T", Bytes, vec![2], bytes)], "comes with");
        }
        let nothing = model(0, vec![tensor("A", Int8, &[0]), tensor("T", Bytes, &[0])]);
        assert_eq!(check(&nothing, 1, &[output("A", Int8, &[0]), output("T", Bytes, &[0])]), Ok(()));
        let nameless = model(0, Vec::new());
        assert_eq!(check(&nameless, 1, &[]), Ok(()));
        assert_eq!(check(&nameless, 1, &[output("A", Int8, &[2])]), Ok(()), "it may have any");
        assert_eq!(reply_limit(&nameless, 1, 7), 7);
        let mut decoupled = model(8, vec![tensor("A", Int8, &[2]), tensor("B", Int8, &[2])]);
        decoupled.decoupled = true;
        assert_eq!(check(&decoupled, 1, &[output("B", Int8, &[5, 2])]), Ok(()));
        refused(&decoupled, 1, &[], "has no outputs");
        refused(&decoupled, 1, &[output("A", Int8, &[1, 3])], "instead of [-1, 2]");
    }

    #[test]
    fn limits_follow_the_model_where_it_says_all() {
        let mut fixed = model(8, vec![tensor("A", Fp32, &[1000])]);
        assert_eq!(reply_limit(&fixed, 2, 7), 16 * 8000 + SLACK + SLACK_EACH);
        fixed.decoupled = true;
        assert_eq!(reply_limit(&fixed, 2, 7), 16 * 32_000 + SLACK + SLACK_EACH);
        assert_eq!(reply_limit(&model(0, vec![tensor("A", Fp32, &[-1])]), 1, 7), 7);
        assert_eq!(reply_limit(&model(0, vec![tensor("A", Bytes, &[1])]), 1, 7), 7);
        assert_eq!(reply_limit(&model(0, vec![tensor("A", Fp32, &[i64::MAX])]), 1, 7), 7);
    }

    #[test]
    fn the_first_fitting_response_of_each_payload_is_due_or_all_are() {
        let checks = ReplyChecks::with_oddities(128, ReplyRule::Readable, &Arc::default());
        for payload in [PayloadId(0), PayloadId(64), PayloadId(127)] {
            assert!(checks.is_due(payload));
            checks.pass(payload);
            assert!(!checks.is_due(payload));
        }
        assert!(checks.is_due(PayloadId(1)));
        (0..128).for_each(|payload| checks.pass(PayloadId(payload)));
        assert!(!checks.any_due());
        let every = ReplyChecks::with_oddities(128, ReplyRule::Fitting, &Arc::default());
        (0..128).for_each(|payload| every.pass(PayloadId(payload)));
        assert!(every.is_due(PayloadId(0)));
        for (payloads, other) in [(0, 0), (MAX_BITS * 2, MAX_BITS as u32)] {
            let shared = ReplyChecks::with_oddities(payloads, ReplyRule::Readable, &Arc::default());
            shared.pass(PayloadId(0));
            assert!(!shared.is_due(PayloadId(other)), "beyond the bits, one stands for another");
            (0..payloads as u32).for_each(|payload| shared.pass(PayloadId(payload)));
            assert!(!shared.any_due());
        }
    }
}

//! [`ExchangeTable`]: what has to change in a request object that carries one payload so that it carries another.
//!
//! Compared once, when a client is opened: the hot path reads two rows and a few addresses that lie one after the other,
//! because a thousand payloads with their names and shapes do not stay in a processor's cache.

use std::collections::HashMap;
use std::ffi::CString;
use std::fmt;

use super::memory::InputPlace;
use super::request::InferenceRequest;
use super::status::{Status, c_string};
use crate::data::{Payload, PayloadId};

/// What a payload is like. Those of the same kind have the model and the parameters in common, which an object cannot
/// change; those of the same form also the names and shapes of their inputs.
#[derive(Clone, Copy)]
struct Row {
    kind: u32,
    form: u32,
    /// Its first place.
    start: u32,
}

/// What has to change between payloads; see the module.
pub(super) struct ExchangeTable {
    rows: Vec<Row>,
    /// The inputs of all payloads.
    places: Vec<InputPlace>,
    /// Names of the inputs of every form.
    names: Vec<Vec<CString>>,
}

/// Numbers things in the order in which they are seen first.
#[derive(Default)]
struct Numbers(HashMap<String, u32>);

impl Numbers {
    /// The number of `thing`, and whether it is new.
    fn of(&mut self, thing: &impl fmt::Debug) -> (u32, bool) {
        let next = self.0.len() as u32;
        let number = *self.0.entry(format!("{thing:?}")).or_insert(next);
        (number, number == next)
    }
}

impl ExchangeTable {
    /// Compares all payloads.
    pub(super) fn new(payloads: &[Payload]) -> Self {
        let (mut kinds, mut forms) = (Numbers::default(), Numbers::default());
        let mut table = Self { rows: Vec::with_capacity(payloads.len()), places: Vec::new(), names: Vec::new() };
        for payload in payloads {
            let shapes: Vec<_> = payload.inputs.iter().map(|input| (&input.name, &input.shape)).collect();
            let (kind, _) = kinds.of(&(payload.model, &payload.parameters));
            let (form, new) = forms.of(&(payload.model, shapes));
            table.rows.push(Row { kind, form, start: table.places.len() as u32 });
            table.places.extend(payload.inputs.iter().map(InputPlace::of));
            if new {
                table.names.push(payload.inputs.iter().map(|input| c_string(&input.name)).collect());
            }
        }
        table
    }

    /// Gives `object`, which carries `before`, what makes it carry `next`; tells whether that was possible.
    ///
    /// # Errors
    /// The server's, where it refuses an input.
    pub(super) fn exchange(
        &self,
        object: &InferenceRequest,
        before: PayloadId,
        (next, payload): (PayloadId, &Payload),
    ) -> Result<bool, Status> {
        let (from, to) = (self.rows[before.0 as usize], self.rows[next.0 as usize]);
        if from.kind != to.kind {
            return Ok(false);
        }
        if from.form != to.form || !object.can_exchange_data() {
            return object.set_inputs(payload).map(|()| true);
        }
        let names = &self.names[to.form as usize];
        let places = &self.places[to.start as usize..][..names.len()];
        names.iter().zip(places).try_for_each(|(name, place)| object.exchange_data(name, *place))?;
        Ok(true)
    }
}

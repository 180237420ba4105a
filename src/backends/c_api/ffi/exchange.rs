//! [`ExchangeTable`]: what has to change in a request object for one payload so that it carries another.
//!
//! Payloads are compared once for all clients of a run: the hot path then reads two rows and a few consecutive
//! addresses, because a thousand payloads with their names and shapes do not stay in a processor's cache.

use std::collections::HashMap;
use std::ffi::CString;
use std::hash::Hash;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::c_api::ffi::memory::InputPlace;
use crate::c_api::ffi::request::InferenceRequest;
use crate::c_api::ffi::status::{Status, c_string};
use crate::data::{Payload, PayloadId};

/// The properties of a payload. Payloads of the same kind share model and parameters, which an object cannot change;
/// those of the same form also share the names and shapes of their inputs.
#[derive(Clone, Copy)]
struct Row {
    kind: u32,
    form: u32,
    /// Index of its first place.
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

/// The most recent table. All clients of a run have the same payloads, worker by worker and level by level, and
/// comparing half a million of these takes time.
#[derive(Default)]
pub struct ExchangeTables(Mutex<Option<Made>>);

/// A table, and the payloads that it was made for.
type Made = (Weak<[Payload]>, Arc<ExchangeTable>);

impl ExchangeTables {
    /// The table of these payloads.
    pub(super) fn table(&self, payloads: &Arc<[Payload]>) -> Arc<ExchangeTable> {
        // Locked while it is made: the others wait for it instead of making their own.
        let mut last = self.0.lock();
        if let Some((source, table)) = &*last
            && Weak::ptr_eq(source, &Arc::downgrade(payloads))
        {
            return Arc::clone(table);
        }
        let table = Arc::new(ExchangeTable::new(payloads));
        *last = Some((Arc::downgrade(payloads), Arc::clone(&table)));
        table
    }
}

/// What an object carries, and what it is to carry.
#[derive(Clone, Copy)]
pub(super) struct Change {
    pub(super) from: PayloadId,
    pub(super) to: PayloadId,
}

/// Numbers things in the order of their first appearance.
struct Numbers<T>(HashMap<T, u32>);

impl<T: Hash + Eq> Numbers<T> {
    fn number(&mut self, thing: T) -> u32 {
        let next = self.0.len() as u32;
        *self.0.entry(thing).or_insert(next)
    }
}

/// The names and shapes of a payload's inputs.
fn outline(payload: &Payload) -> impl Iterator<Item = (&str, &[i64])> {
    payload.inputs.iter().map(|input| (&*input.name, &*input.shape))
}

/// Whether payloads are of one kind and one form.
fn are_alike(left: &Payload, right: &Payload) -> bool {
    left.model == right.model && left.parameters == right.parameters && outline(left).eq(outline(right))
}

impl ExchangeTable {
    /// Compares all payloads.
    fn new(payloads: &[Payload]) -> Self {
        let (mut kinds, mut forms) = (Numbers(HashMap::new()), Numbers(HashMap::new()));
        let mut table = Self { rows: Vec::with_capacity(payloads.len()), places: Vec::new(), names: Vec::new() };
        let mut before: Option<(&Payload, Row)> = None;
        for payload in payloads {
            let start = table.places.len() as u32;
            let row = match before {
                // Most are like the previous one, and need no lookup.
                Some((last, row)) if are_alike(last, payload) => Row { start, ..row },
                _ => Row {
                    kind: kinds.number((payload.model, format!("{:?}", payload.parameters))),
                    form: forms.number((payload.model, outline(payload).collect::<Vec<_>>())),
                    start,
                },
            };
            table.rows.push(row);
            table.places.extend(payload.inputs.iter().map(InputPlace::new));
            if row.form as usize == table.names.len() {
                table.names.push(payload.inputs.iter().map(|input| c_string(&input.name)).collect());
            }
            before = Some((payload, row));
        }
        table
    }

    /// Makes `object` carry another payload; returns whether that was possible.
    ///
    /// # Errors
    /// The server's, if it refuses an input.
    pub(super) fn exchange(
        &self,
        object: &mut InferenceRequest,
        change: Change,
        payload: &Payload,
    ) -> Result<bool, Status> {
        let (from, to) = (self.rows[change.from.0 as usize], self.rows[change.to.0 as usize]);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{InputTensor, Parameter, ParameterValue};
    use crate::model::DataType;
    use crate::shm::RegionBuilder;

    fn payload(model: usize, shape: i64, parameter: i64) -> Payload {
        let input = InputTensor {
            name: "X".into(),
            datatype: DataType::Uint8,
            shape: [shape].into(),
            region: Arc::new(RegionBuilder::new().unwrap().finish()),
            offset: 0,
            len: 0,
        };
        let parameters = vec![Parameter { name: "p".into(), value: ParameterValue::Int(parameter) }];
        Payload { model, batch: 1, stream: 0, step: 0, inputs: vec![input], parameters, expected: None }
    }

    #[test]
    fn payloads_are_told_apart_by_what_an_object_cannot_change() {
        let payloads = [(0, 1, 1), (0, 1, 1), (0, 2, 1), (0, 1, 2), (0, 1, 1), (1, 1, 1)];
        let table = ExchangeTable::new(&payloads.map(|(model, shape, parameter)| payload(model, shape, parameter)));
        let rows: Vec<_> = table.rows.iter().map(|row| (row.kind, row.form, row.start)).collect();
        assert_eq!(rows, [(0, 0, 0), (0, 0, 1), (0, 1, 2), (1, 0, 3), (0, 0, 4), (2, 2, 5)]);
        assert_eq!((table.names.len(), table.places.len()), (3, 6));
    }

    #[test]
    fn clients_with_the_same_payloads_share_a_table() {
        let tables = ExchangeTables::default();
        let (payloads, others): (Arc<[Payload]>, Arc<[Payload]>) =
            ([payload(0, 1, 1)].into(), [payload(0, 1, 1)].into());
        let first = tables.table(&payloads);
        assert!(Arc::ptr_eq(&first, &tables.table(&Arc::clone(&payloads))));
        assert!(!Arc::ptr_eq(&first, &tables.table(&others)));
    }
}

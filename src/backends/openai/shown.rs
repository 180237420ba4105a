//! Answers as observers see them.

use std::cell::RefCell;

use crate::backend::{OutputView, Outputs};
use crate::data::pack_element;
use crate::model::DataType;
use crate::openai::RESPONSE;
use crate::wire::sse::Event;

/// A text as the output that observers see.
pub(super) struct Shown<'a> {
    /// What it is made of.
    pub(super) parts: &'a [&'a [u8]],
    /// Where the parts are joined.
    pub(super) scratch: &'a RefCell<Vec<u8>>,
}

impl Outputs for Shown<'_> {
    fn visit(&self, visitor: &mut dyn FnMut(OutputView<'_>)) {
        let mut bytes = self.scratch.borrow_mut();
        pack_element(&mut bytes, self.parts);
        visitor(OutputView { name: RESPONSE, datatype: DataType::Json, shape: &[1], bytes: &bytes });
    }
}

/// An event as the output that observers see: its lines, and the blank one that ends it.
pub(super) struct EventText<'a> {
    /// The event.
    pub(super) event: Event<'a>,
    /// Where the parts are joined.
    pub(super) scratch: &'a RefCell<Vec<u8>>,
}

impl Outputs for EventText<'_> {
    fn visit(&self, visitor: &mut dyn FnMut(OutputView<'_>)) {
        let Event { name, data } = self.event;
        let shown = |parts: &[&[u8]], visitor: &mut dyn FnMut(OutputView<'_>)| {
            Shown { parts, scratch: self.scratch }.visit(visitor);
        };
        let several = data.contains(&b'\n');
        match (name, several) {
            (b"", false) => shown(&[b"data: ", data, b"\n\n"], visitor),
            (name, false) => shown(&[b"event: ", name, b"\ndata: ", data, b"\n\n"], visitor),
            (name, true) => {
                let mut lines = if name.is_empty() { Vec::new() } else { [b"event: ", name, b"\n"].concat() };
                for line in data.split(|&byte| byte == b'\n') {
                    lines.extend_from_slice(&[b"data: ", line, b"\n"].concat());
                }
                shown(&[&lines, b"\n"], visitor);
            }
        }
    }
}

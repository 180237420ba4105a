//! Entry points of the fuzz targets under `fuzz/`, which pass bytes instead of files.

use std::cell::RefCell;
use std::path::Path;

use crate::json::JsonReader;
use crate::model::{CorrelationForm, DataType, ModelId, ModelSpec, Scheduler, TensorSpec};
use crate::npy;
use crate::shm::{Allowance, RegionBuilder};
use crate::steps::Target;
use crate::{CorpusSpec, DataSource};

/// Reads a text as an input file of a model with a tensor of every type: fixed, open and optional ones.
pub fn json(text: &[u8]) {
    thread_local! {
        static READER: RefCell<JsonReader<'static>> =
            RefCell::new(JsonReader::new(target()).expect("a few pages of memory"));
    }
    READER.with_borrow_mut(|reader| {
        reader.reset();
        let _ = reader.read(Path::new("in.json"), text, &|_| ());
    });
}

/// Reads bytes as an array for every input and output of the model.
pub fn npy(file: &[u8]) {
    thread_local! {
        static MEMORY: RefCell<RegionBuilder> = RefCell::new(RegionBuilder::new().expect("a few pages of memory"));
    }
    MEMORY.with_borrow_mut(|memory| {
        for index in 0..target().model.inputs.len() {
            memory.truncate(0);
            let tensor = &target().model.inputs[index];
            let array = npy::Array::new(tensor, file);
            if let Ok(array) = array.and_then(|array| array.check_len(tensor, file.len()).map(|()| array)) {
                let _ = npy::input_column(
                    target(),
                    &array,
                    &mut &file[array.data..],
                    npy::Regions { in_place: 1, converted: 0, memory },
                );
                let _ = npy::output_column(target(), index, &array, &mut &file[array.data..], memory);
            }
        }
    });
}

/// The target of reading; made once and never freed.
fn target() -> &'static Target<'static> {
    thread_local!(static TARGET: &'static Target<'static> = Box::leak(Box::new(make_target())));
    TARGET.with(|target| *target)
}

fn make_target() -> Target<'static> {
    let tensor = |datatype: DataType| TensorSpec {
        name: datatype.name().to_owned(),
        datatype,
        shape: if datatype.code() % 2 == 0 { vec![-1, 2] } else { vec![2] },
        optional: true,
        shape_tensor: false,
    };
    let model = Box::leak(Box::new(ModelSpec {
        id: ModelId::latest("m"),
        versions: Vec::new(),
        platform: String::new(),
        max_batch_size: 8,
        inputs: DataType::all().map(tensor).collect(),
        outputs: DataType::all().map(tensor).collect(),
        correlation: CorrelationForm::Number,
        scheduler: Scheduler::Default,
        sequences: false,
        decoupled: true,
        response_cache: false,
        composing: Vec::new(),
        config: Default::default(),
    }));
    let spec = Box::leak(Box::new(CorpusSpec {
        lengths: &[],
        blocks: None,
        optional: &crate::OptionalInputs::None,
        source: &DataSource::Zero,
        shapes: &[],
        string_length: 0,
        string_data: None,
        random_ranges: &[],
        requests: None,
        stages: 1,
        seed: 0,
        memory: Box::leak(Box::new(Allowance::unbounded())),
    }));
    Target::new(model, spec).expect("no shapes are given")
}

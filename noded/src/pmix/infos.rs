//! Facts as arrays of `pmix_info_t`, with everything that they point to.

use super::abi::{Data, DataArray, Info, KEY_BYTES, Value, kind};
use super::facts::{Fact, FactValue};
use super::library::Library;
use std::ffi::{CString, c_char};

/// An array of `pmix_info_t` that owns what its elements point to.
pub struct Infos {
    infos: Vec<Info>,
    // Pointed to from above; what is on the heap stays at its place when these move.
    texts: Vec<CString>,
    #[allow(clippy::vec_box, reason = "a longer vector moves what is not in boxes")]
    arrays: Vec<Box<DataArray>>,
    nested: Vec<Infos>,
}

impl Infos {
    /// Lays facts out. Maps are packed by the library.
    ///
    /// # Errors
    /// A NUL in a text, or the library cannot pack a map.
    pub fn new(facts: &[Fact], library: &Library) -> Result<Self, String> {
        let mut all = Self {
            infos: Vec::with_capacity(facts.len()),
            texts: Vec::new(),
            arrays: Vec::new(),
            nested: Vec::new(),
        };
        for fact in facts {
            let info = all.lay_out(fact, library)?;
            all.infos.push(info);
        }
        Ok(all)
    }

    /// The array; the library may write flags into it.
    pub fn as_mut_slice(&mut self) -> &mut [Info] {
        &mut self.infos
    }

    fn lay_out(&mut self, fact: &Fact, library: &Library) -> Result<Info, String> {
        let mut info = empty(fact.key)?;
        let value = &mut info.value;
        match &fact.value {
            FactValue::Text(text) => {
                value.kind = kind::STRING;
                value.data.string = self.text(text)?.cast_const();
            }
            FactValue::Flag(flag) => {
                value.kind = kind::BOOL;
                value.data.flag = *flag;
            }
            FactValue::U16(number) => {
                value.kind = kind::UINT16;
                value.data.uint16 = *number;
            }
            FactValue::U32(number) => {
                value.kind = kind::UINT32;
                value.data.uint32 = *number;
            }
            FactValue::Rank(rank) => {
                value.kind = kind::PROC_RANK;
                value.data.uint32 = *rank;
            }
            FactValue::Nodes(text) => library.pack_nodes(&c_text(text)?, value)?,
            FactValue::Ranks(text) => library.pack_ranks(&c_text(text)?, value)?,
            FactValue::Facts(facts) => {
                value.kind = kind::DATA_ARRAY;
                value.data.array = self.array(Self::new(facts, library)?);
            }
        }
        Ok(info)
    }

    fn text(&mut self, text: &str) -> Result<*mut c_char, String> {
        let text = c_text(text)?;
        let at = text.as_ptr().cast_mut();
        self.texts.push(text);
        Ok(at)
    }

    fn array(&mut self, mut inner: Self) -> *const DataArray {
        let array = Box::new(DataArray {
            kind: kind::INFO,
            size: inner.infos.len(),
            array: inner.infos.as_mut_ptr().cast(),
        });
        let at = &raw const *array;
        self.arrays.push(array);
        self.nested.push(inner);
        at
    }
}

fn c_text(text: &str) -> Result<CString, String> {
    CString::new(text).map_err(|_| format!("'{}' has a NUL byte inside", text.escape_debug()))
}

fn empty(key: &str) -> Result<Info, String> {
    let mut info = Info {
        key: [0; KEY_BYTES],
        flags: 0,
        value: Value {
            kind: 0,
            data: Data { whole: [0; 3] },
        },
    };
    if key.len() >= KEY_BYTES {
        return Err(format!("the key '{key}' is too long"));
    }
    for (place, byte) in info.key.iter_mut().zip(key.bytes()) {
        *place = byte as c_char;
    }
    Ok(info)
}

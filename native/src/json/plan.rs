//! What is known once per schema: which kind of value each place takes, and the names of each struct.

use arrow_schema::{DataType, Field, Fields};

use super::columns::{is_uuid, plain_plan};
use super::names::Names;

pub enum Plan {
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Decimal(u8, i32),
    Date,
    Time,
    Timestamp(bool),
    Text,
    Binary,
    Uuid,
    FixedBinary(usize),
    List(Box<Member>),
    Map(Box<Member>),
    Struct(Names, Vec<Member>),
}

pub struct Member {
    pub plan: Plan,
    pub required: bool,
}

impl Plan {
    /// The plan of a struct of `fields`. `names`: those of each struct, the outer before the inner, in the order of fields.
    pub fn of_fields(fields: &Fields, names: &mut dyn Iterator<Item = Names>) -> Result<Plan, String> {
        let own = names.next().ok_or("fewer names than structs")?;
        if own.sources.iter().any(|(_, slot)| *slot as usize >= fields.len())
            || own.folded.values().any(|slot| *slot as usize >= fields.len())
        {
            return Err("a name of no column".into());
        }
        let members = fields.iter().map(|field| Member::of(field, names)).collect::<Result<_, _>>()?;
        Ok(Plan::Struct(own, members))
    }

    fn of(field: &Field, names: &mut dyn Iterator<Item = Names>) -> Result<Plan, String> {
        if is_uuid(field) {
            return Ok(Plan::Uuid);
        }
        match field.data_type() {
            DataType::FixedSizeBinary(size) => Ok(Plan::FixedBinary(usize::try_from(*size).map_err(|_| "a negative size")?)),
            DataType::List(item) | DataType::LargeList(item) => Ok(Plan::List(Box::new(Member::of(item, names)?))),
            DataType::Struct(fields) => Plan::of_fields(fields, names),
            DataType::Map(entries, _) => match entries.data_type() {
                DataType::Struct(pair) if pair.len() == 2 && *pair[0].data_type() == DataType::Utf8 => {
                    Ok(Plan::Map(Box::new(Member::of(&pair[1], names)?)))
                }
                other => Err(format!("no plan for a map of {other}")),
            },
            other => plain_plan(other).ok_or_else(|| format!("no plan for {other}")),
        }
    }
}

impl Member {
    fn of(field: &Field, names: &mut dyn Iterator<Item = Names>) -> Result<Member, String> {
        Ok(Member { plan: Plan::of(field, names)?, required: !field.is_nullable() })
    }
}

//! What a priority is made of, as one text: `age=0,fair_share=250000000,...,site=0,cpu=125000000`.

use cosy_model::policy::Tres;

/// What a priority is made of: factors in billionths.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PriorityFactors {
    /// Of the time that it could have run.
    pub age: u64,
    /// Of its user's fair share.
    pub fair_share: u64,
    /// Of its size.
    pub size: u64,
    /// Of its queue.
    pub queue: u64,
    /// Of its quality of service.
    pub qos: u64,
    /// Of its association.
    pub association: u64,
    /// Of each weighted resource.
    pub tres: Vec<(Tres, u64)>,
    /// Points of the site.
    pub site: i64,
}

/// The text of all of them.
pub fn write(factors: &PriorityFactors) -> String {
    let PriorityFactors {
        age,
        fair_share,
        size,
        queue,
        qos,
        association,
        tres,
        site,
    } = factors;
    let mut text = format!(
        "age={age},fair_share={fair_share},size={size},queue={queue},qos={qos},\
         association={association},site={site}"
    );
    for (tres, ppb) in tres {
        text.push_str(&format!(",{tres}={ppb}"));
    }
    text
}

/// The factors of a text; `None` where there are none. What is not known is passed over.
pub fn read(text: &str) -> Option<PriorityFactors> {
    if text.is_empty() {
        return None;
    }
    let mut factors = PriorityFactors::default();
    for part in text.split(',') {
        let Some((name, number)) = part.rsplit_once('=') else {
            continue;
        };
        if name == "site" {
            factors.site = number.parse().unwrap_or(0);
            continue;
        }
        let number = number.parse().unwrap_or(0);
        match name {
            "age" => factors.age = number,
            "fair_share" => factors.fair_share = number,
            "size" => factors.size = number,
            "queue" => factors.queue = number,
            "qos" => factors.qos = number,
            "association" => factors.association = number,
            name => factors
                .tres
                .extend(name.parse().ok().map(|tres| (tres, number))),
        }
    }
    Some(factors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_are_read_again() {
        let factors = PriorityFactors {
            age: 1,
            fair_share: 2,
            size: 3,
            queue: 4,
            qos: 5,
            association: 6,
            tres: vec![(Tres::Cpu, 7), (Tres::gpus(), 8)],
            site: -9,
        };
        assert_eq!(read(&write(&factors)), Some(factors));
        assert_eq!(read(""), None);
        assert_eq!(read("x,y=1,age="), Some(PriorityFactors::default()));
    }
}

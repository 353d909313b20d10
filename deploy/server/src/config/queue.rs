//! How many runs are at work at once, and how many may wait.

use std::{collections::BTreeMap, sync::Arc};

use reenact_actors::admission::Bounds;

use super::{ConfigError, Layers};

pub(super) fn bounds(layers: &Layers) -> Result<Bounds, ConfigError> {
    Ok(Bounds {
        node: layers.positive("max-concurrency")?,
        user: layers.parse("max-user-concurrency", "a number of runs, 0 or more")?,
        providers: providers(layers)?,
        waiting: layers.parse("max-queue-depth", "a number of runs, 0 or more")?,
    })
}

fn providers(layers: &Layers) -> Result<BTreeMap<Arc<str>, usize>, ConfigError> {
    const KEY: &str = "max-provider-concurrency";
    let mut bounds = BTreeMap::new();
    for part in layers.list(KEY) {
        let read = part.split_once('=').map(|(name, number)| (name.trim(), number.trim().parse()));
        let Some((name, Ok(number @ 1..))) = read.filter(|(name, _)| !name.is_empty()) else {
            return Err(layers.refuse(KEY, "it must be like `openai=8,demo=2`, with numbers above 0".to_owned()));
        };
        if bounds.insert(name.into(), number).is_some() {
            return Err(layers.refuse(KEY, format!("it names `{name}` twice")));
        }
    }
    Ok(bounds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_provider_has_the_bound_that_is_said_for_it() {
        let said = |text: &str| {
            let flags = [("max-provider-concurrency", text.to_owned())].into_iter().collect();
            let layers = Layers::resolve(&flags, &|_| None, None).unwrap();
            bounds(&layers).unwrap().providers
        };
        assert_eq!(said(""), BTreeMap::new());
        assert_eq!(said("openai = 8, demo=2"), BTreeMap::from([("openai".into(), 8), ("demo".into(), 2)]));
    }
}

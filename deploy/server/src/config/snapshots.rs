//! What the configuration says about snapshots of the state stores.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use super::{ConfigError, Layers, LogPlace};

/// Where snapshots lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SnapshotPlace {
    /// In a folder.
    Folder(PathBuf),
    /// In a bucket: `s3://BUCKET/PREFIX` or `gs://BUCKET/PREFIX`.
    Bucket(String),
}

impl SnapshotPlace {
    /// The place that a text names: `file:///FOLDER`, `s3://BUCKET[/PREFIX]` or `gs://BUCKET[/PREFIX]`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let bucket = ["s3://", "gs://"].iter().find_map(|scheme| text.strip_prefix(scheme));
        if bucket.is_some_and(|bucket| !bucket.is_empty() && !bucket.starts_with('/')) {
            return Some(Self::Bucket(text.trim_end_matches('/').to_owned()));
        }
        let folder = text.strip_prefix("file://").filter(|path| path.len() > 1 && path.starts_with('/'));
        folder.map(|folder| Self::Folder(folder.into()))
    }
}

/// Where and when snapshots are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshots {
    /// Where they lie, if they are made.
    pub place: Option<SnapshotPlace>,
    /// One is made after so many events,
    pub events: u64,
    /// or after so long, if there were any.
    pub period: Duration,
}

pub(super) fn snapshots(layers: &Layers, log: &LogPlace, objects: &Path) -> Result<Snapshots, ConfigError> {
    Ok(Snapshots {
        place: place(layers, log, objects)?,
        events: layers.positive("snapshot-events")? as u64,
        period: Duration::from_secs(layers.positive("snapshot-period-s")? as u64),
    })
}

fn place(layers: &Layers, log: &LogPlace, objects: &Path) -> Result<Option<SnapshotPlace>, ConfigError> {
    match layers.text("snapshots").trim() {
        "none" => Ok(None),
        // A log of this machine is folded from its own disk.
        "" if *log == LogPlace::Embedded => Ok(None),
        "" => Ok(Some(SnapshotPlace::Folder(objects.join("snapshots")))),
        text => SnapshotPlace::parse(text).map(Some).ok_or_else(|| {
            layers.refuse(
                "snapshots",
                "it must be empty, `none`, `file:///FOLDER`, `s3://BUCKET[/PREFIX]` or `gs://BUCKET[/PREFIX]`"
                    .to_owned(),
            )
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Flags};

    fn place(flags: &[(&'static str, &str)]) -> Result<Option<SnapshotPlace>, ConfigError> {
        let flags: Flags = flags.iter().map(|(key, value)| (*key, (*value).to_owned())).collect();
        Ok(Config::from_layers(&Layers::resolve(&flags, &|_| None, None)?)?.snapshots.place)
    }

    #[test]
    fn snapshots_are_made_by_default_where_several_nodes_share_a_log() {
        let folder = |path: &str| Some(SnapshotPlace::Folder(path.into()));
        assert_eq!(place(&[]).unwrap(), None);
        let kafka = [("log", "kafka://a:1"), ("objects", "/shared")];
        assert_eq!(place(&kafka).unwrap(), folder("/shared/snapshots"));
        assert_eq!(place(&[kafka[0], ("snapshots", "none")]).unwrap(), None);
        assert_eq!(place(&[("snapshots", "file:///a/b")]).unwrap(), folder("/a/b"));
        let bucket = Some(SnapshotPlace::Bucket("s3://bucket/prefix".to_owned()));
        assert_eq!(place(&[("snapshots", "s3://bucket/prefix/")]).unwrap(), bucket);
    }

    #[test]
    fn places_that_are_none_are_refused_with_what_would_be_one() {
        for text in ["here", "file://relative", "file:///", "s3://", "s3:///a", "http://host"] {
            let error = place(&[("snapshots", text)]).unwrap_err().to_string();
            assert!(error.contains("`file:///FOLDER`") && error.contains(text), "{error}");
        }
    }
}

//! Whether another process of the deployment has this node's name. People, answers and the list of owners tell
//! nodes apart by it, so the second one is refused.
//!
//! Members of the group say their name as their client id. A process that died stays a member until its session
//! times out, so a name that is taken is looked at again until then. Brokers tell nothing about members of a
//! group with `group.protocol=consumer` here; two that begin at the same moment do not see each other either.

use std::{
    thread,
    time::{Duration, Instant},
};

use rdkafka::{consumer::Consumer, groups::GroupMemberInfo};

use crate::{ConnectError, connect::Session};

/// How long the members of the group are asked for at a time.
const LIST_WAIT: Duration = Duration::from_secs(3);
/// How long after its session's time-out a dead member may still be listed.
pub(crate) const MARGIN: Duration = Duration::from_secs(3);
/// Between two looks at the members.
pub(crate) const PAUSE: Duration = Duration::from_millis(250);

/// Where a member is; brokers write a slash before it.
pub(crate) fn host(member: &GroupMemberInfo) -> &str {
    member.client_host().trim_start_matches('/')
}

impl Session<'_> {
    /// Waits until no member has this node's name, for as long as one that died stays, and tells so.
    pub(crate) fn wait_for_the_name(&self, tell: &dyn Fn(&str)) -> Result<(), ConnectError> {
        let Some(node) = &self.options.node else { return Ok(()) };
        let deadline = Instant::now() + self.options.session_timeout() + MARGIN;
        let mut is_told = false;
        while let Some(host) = self.namesake() {
            if Instant::now() > deadline {
                return Err(ConnectError::NameTaken { node: node.clone(), host });
            }
            if !std::mem::replace(&mut is_told, true) {
                tracing::info!(%node, host, "a member has this node's name: it goes on when that is gone");
                tell(&format!(
                    "a member of the deployment at `{host}` has this node's name `{node}`: it is waited until that one \
                     is gone, which takes a session time-out when it died; when it is alive, give this node another \
                     `--node`"
                ));
            }
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Where the member is that has this node's name.
    fn namesake(&self) -> Option<String> {
        let (name, group) = (self.options.member_name(), &self.options.prefix);
        match self.consumer.fetch_group_list(Some(group), LIST_WAIT) {
            Ok(known) => {
                let mut members = known.groups().iter().flat_map(|group| group.members());
                members.find(|member| member.client_id() == name).map(|member| host(member).to_owned())
            }
            // One broker of three that is away is enough for this, and no reason not to begin.
            Err(error) => {
                tracing::debug!(%error, "the members of the group cannot be listed");
                None
            }
        }
    }
}

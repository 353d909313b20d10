//! Commands that were taken: nobody reads them again, so they can go before their retention is over.
//!
//! What a partition's cursor has passed was decided in the transaction that moved it, and whoever owns the partition
//! next begins there. What the cursor has not passed stays.

use futures::executor::block_on;
use rdkafka::{
    TopicPartitionList,
    admin::{AdminClient, AdminOptions},
    client::DefaultClientContext,
    config::FromClientConfigAndContext,
    consumer::Consumer,
    error::KafkaError,
};
use reenact_events::{LogError, Offset, PartitionId};

use crate::{
    reader::{self, ASK, at, number},
    writer::Common,
};

/// Deletes them, and says where each partition begins from now on. Blocks.
pub(crate) fn drop_taken(common: &Common) -> Result<Vec<(PartitionId, Offset)>, LogError> {
    let topic = &common.topics.commands;
    let failed = |error: KafkaError| {
        reader::unavailable(&format!("the commands of topic `{topic}` that were taken cannot be deleted"), &error)
    };
    let begins = cursors(common)?;
    let mut passed = TopicPartitionList::new();
    for (partition, cursor) in begins.iter().filter(|(_, cursor)| *cursor > Offset(0)) {
        passed.add_partition_offset(topic, number(*partition), at(*cursor)).map_err(failed)?;
    }
    if passed.count() > 0 {
        let admin: AdminClient<DefaultClientContext> =
            AdminClient::from_config_and_context(&common.options.client(), DefaultClientContext).map_err(failed)?;
        let asking = AdminOptions::new().operation_timeout(Some(ASK)).request_timeout(Some(ASK));
        let deleted = block_on(admin.delete_records(&passed, &asking)).map_err(failed)?;
        deleted.elements().iter().try_for_each(|element| element.error()).map_err(failed)?;
    }
    Ok(begins)
}

/// How far the commands of each partition were taken. No transaction that could still move a cursor back is open.
fn cursors(common: &Common) -> Result<Vec<(PartitionId, Offset)>, LogError> {
    let mut config = common.options.reader();
    config.set("group.id", &common.options.prefix);
    let group = reader::consumer(&config, &common.trouble)?;
    let failed = |error| reader::unavailable("the group's offsets cannot be read", &error);
    let mut all = TopicPartitionList::new();
    let partitions = (0..common.partitions).map(PartitionId);
    partitions.clone().for_each(|partition| {
        all.add_partition(&common.topics.commands, number(partition));
    });
    let committed = reader::patiently(|| group.committed_offsets(all.clone(), ASK)).map_err(failed)?;
    let cursor = |partition: PartitionId| {
        let found = committed.find_partition(&common.topics.commands, number(partition));
        let offset = found.and_then(|element| element.offset().to_raw()).and_then(|offset| u64::try_from(offset).ok());
        // A group that has forgotten it lets everything stay.
        (partition, Offset(offset.unwrap_or_default()))
    };
    Ok(partitions.map(cursor).collect())
}

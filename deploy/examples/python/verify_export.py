"""Checks an export of reenact's log (`reenact audit export --to DIR`) without any of reenact's code.

    python verify_export.py DIR [ANCHORS]

It needs Python 3.9 and nothing else. For each partition it checks the file's SHA-256, that the sequences of every
stream have no gap, that offsets and terms never fall, and the hash chain: every event's link is BLAKE3 over the link
before it and the event's fields, so a changed, removed or inserted event breaks every later one. With a file of
anchors it also checks that each anchored link is still there; whether the anchors are signed by whom they should be
is for `openssl` to say (see AUDITING.md).

The exit status is 1 when anything is wrong. BLAKE3 is written out below; the package `blake3` is used if it is
installed, as it is some hundred times faster.
"""

import hashlib
import json
import pathlib
import struct
import sys
import uuid

MASK = 0xFFFFFFFF
IV = (
    0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A,
    0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19,
)
PERMUTATION = (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)
COLUMNS_AND_DIAGONALS = (
    (0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
    (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14),
)
CHUNK_START, CHUNK_END, PARENT, ROOT = 1, 2, 4, 8
BLOCK_BYTES, CHUNK_BYTES = 64, 1024


def rotate(word, bits):
    return (word >> bits | word << 32 - bits) & MASK


def compress(chaining, block, counter, length, flags):
    state = list(chaining) + list(IV[:4]) + [counter & MASK, counter >> 32, length, flags]
    message = list(struct.unpack("<16I", block))
    for _ in range(7):
        for number, (a, b, c, d) in enumerate(COLUMNS_AND_DIAGONALS):
            for word, (first, second) in ((message[2 * number], (16, 12)), (message[2 * number + 1], (8, 7))):
                state[a] = (state[a] + state[b] + word) & MASK
                state[d] = rotate(state[d] ^ state[a], first)
                state[c] = (state[c] + state[d]) & MASK
                state[b] = rotate(state[b] ^ state[c], second)
        message = [message[place] for place in PERMUTATION]
    return [low ^ high for low, high in zip(state[:8], state[8:])]


def chunk(data, counter, flags):
    """The chaining value of a chunk of at most 1024 bytes."""
    chaining = IV
    blocks = [data[at:at + BLOCK_BYTES] for at in range(0, len(data), BLOCK_BYTES)] or [b""]
    for place, block in enumerate(blocks):
        own = (CHUNK_START if place == 0 else 0) | (CHUNK_END | flags if place == len(blocks) - 1 else 0)
        chaining = compress(chaining, block.ljust(BLOCK_BYTES, b"\0"), counter, len(block), own)
    return chaining


def tree(data, counter, flags):
    """The chaining value of a subtree: the left half is the largest power of two of chunks that leaves something."""
    if len(data) <= CHUNK_BYTES:
        return chunk(data, counter, flags)
    chunks = (len(data) - 1) // CHUNK_BYTES
    left = 1 << (chunks.bit_length() - 1)
    cut = left * CHUNK_BYTES
    children = tree(data[:cut], counter, 0) + tree(data[cut:], counter + left, 0)
    return compress(IV, struct.pack("<16I", *children), 0, BLOCK_BYTES, PARENT | flags)


def own_blake3(data):
    return struct.pack("<8I", *tree(data, 0, ROOT))


try:
    import blake3

    def hash_of(data):
        return blake3.blake3(data).digest()
except ImportError:
    hash_of = own_blake3


def link(before, event):
    """The link of an event: every field with its length before it."""
    fields = (
        uuid.UUID(event["id"]).bytes,
        event["type"].encode(),
        event["stream"].encode(),
        struct.pack("<Q", event["seq"]),
        struct.pack("<q", event["at_ms"]),
        struct.pack("<Q", event["term"]),
        (event["cause"] or "").encode(),
        (event["owner"] or "").encode(),
        (event["subject"] or "").encode(),
        event["data"].encode(),
    )
    return hash_of(before + b"".join(struct.pack("<Q", len(field)) + field for field in fields))


def check(folder, part, anchors):
    """What is wrong with a partition: the first thing, as a text; None when nothing is."""
    text = (folder / part["file"]).read_bytes()
    if hashlib.sha256(text).hexdigest() != part["sha256"]:
        return f"{part['file']}: the SHA-256 is not that of the manifest"
    before, last, term, sequences, events = bytes(32), -1, 0, {}, 0
    for number, line in enumerate(text.decode().splitlines(), 1):
        where = f"{part['file']} line {number}"
        event = json.loads(line)
        before = link(before, event)
        if before.hex() != event["chain"]:
            return f"{where}: the chain does not follow from the event before (offset {event['offset']})"
        if event["offset"] <= last or event["term"] < term:
            return f"{where}: the offset or the term falls"
        if event["seq"] != sequences.get(event["stream"], -1) + 1:
            return f"{where}: stream {event['stream']} has a gap before {event['seq']}"
        anchored = anchors.pop((part["partition"], event["offset"]), None)
        if anchored not in (None, event["chain"]):
            return f"{where}: it was anchored as {anchored} and is {event['chain']}"
        last, term, events = event["offset"], event["term"], events + 1
        sequences[event["stream"]] = event["seq"]
    if (events, before.hex() if events else None) != (part["events"], part["chain"]):
        return f"{part['file']}: it does not end where the manifest says"
    return None


def main(folder, anchors_file=None):
    folder = pathlib.Path(folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    lines = pathlib.Path(anchors_file).read_text().splitlines() if anchors_file else []
    read = [json.loads(line) for line in lines if line.strip()]
    wrong = [f"an anchor is of log {anchor['log_id']}" for anchor in read if anchor["log_id"] != manifest["log_id"]]
    anchors = {(anchor["partition"], anchor["offset"]): anchor["chain"] for anchor in read}
    for part in manifest["partitions"]:
        found = check(folder, part, anchors)
        print(f"partition {part['partition']}: {part['events']} events, {found or 'the chain holds'}")
        if found:
            wrong.append(found)
    wrong += [f"no event is at partition {place[0]}, offset {place[1]}, which was anchored" for place in anchors]
    for what in wrong:
        print(f"WRONG: {what}", file=sys.stderr)
    print("not as it should be" if wrong else f"log {manifest['log_id']} is whole")
    return 1 if wrong else 0


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))

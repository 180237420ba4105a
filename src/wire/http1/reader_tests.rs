use super::*;

/// Feeds `bytes` in pieces of `piece` bytes. Returns status, body, bytes left over, and whether the reply was complete.
fn read(bytes: &[u8], piece: usize) -> Result<(u16, Vec<u8>, usize, bool), Malformed> {
    let mut reader = ReplyReader::with_part_length("Inference-Header-Content-Length");
    let (mut body, mut complete, mut used) = (Vec::new(), false, 0);
    for part in bytes.chunks(piece) {
        let mut at = 0;
        while at < part.len() && !complete {
            let progress = reader.feed(&part[at..])?;
            assert!(progress.taken > 0 || progress.complete, "no progress");
            body.extend_from_slice(progress.body);
            at += progress.taken;
            used += progress.taken;
            complete = progress.complete;
        }
    }
    assert_eq!(reader.body_bytes(), body.len() as u64);
    let complete = complete || reader.end().is_ok();
    Ok((reader.head().map_or(0, |head| head.status), body, bytes.len() - used, complete))
}

/// Whatever the pieces, the result is the same.
fn read_all_ways(bytes: &[u8]) -> Result<(u16, Vec<u8>, usize, bool), Malformed> {
    let whole = read(bytes, bytes.len().max(1));
    for piece in [1, 2, 3, 7, 64] {
        let pieces = read(bytes, piece);
        assert_eq!(whole.is_ok(), pieces.is_ok(), "pieces of {piece}: {whole:?} and {pieces:?}");
        if let (Ok(whole), Ok(pieces)) = (&whole, &pieces) {
            assert_eq!(whole, pieces, "pieces of {piece}");
        }
    }
    whole
}

#[test]
fn an_alert_of_tls_is_told_from_other_bytes() {
    let refused = |bytes: &[u8]| read_all_ways(bytes).unwrap_err();
    assert!(refused(&[21, 3, 1, 0, 2, 2, 70]).to_string().contains("the server speaks TLS"));
    assert!(!refused(&[0, 0, 18, 4, 0, 0, 0]).to_string().contains("TLS"));
}

#[test]
fn lengths_chunks_and_closing_end_a_body() {
    let plain = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    assert_eq!(read_all_ways(plain), Ok((200, b"hello".to_vec(), 0, true)));
    let chunked =
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nhel\r\n2\r\nlo\r\n0\r\nTrailer: 1\r\n\r\n";
    assert_eq!(read_all_ways(chunked), Ok((200, b"hello".to_vec(), 0, true)));
    let closing = b"HTTP/1.0 200 OK\r\n\r\nhello";
    assert_eq!(read_all_ways(closing), Ok((200, b"hello".to_vec(), 0, true)));
    let bare = b"HTTP/1.1 204 No Content\r\nContent-Length: 9\r\n\r\n";
    assert_eq!(read_all_ways(bare), Ok((204, Vec::new(), 0, true)));
}

#[test]
fn lines_may_end_without_a_carriage_return() {
    let chunked = "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n3;x=y\nhel\n2\nlo\n0\nTrailer: 1\n\n";
    assert_eq!(read_all_ways(chunked.as_bytes()), Ok((200, b"hello".to_vec(), 0, true)));
    // Of a mixed kind, and without trailers.
    let mixed = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\nhel\r\n2\r\nlo\n0\r\n\n";
    assert_eq!(read_all_ways(mixed.as_bytes()), Ok((200, b"hello".to_vec(), 0, true)));
    for broken in ["\n3\nhel\n0\n\n", "3\nhell\n0\n\n", ";\n3\nhel\n0\n\n"] {
        let bytes = format!("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n{broken}");
        assert!(read_all_ways(bytes.as_bytes()).is_err(), "{broken:?}");
    }
}

#[test]
fn extensions_of_chunks_may_grow_with_the_data_and_not_without_it() {
    const HEAD: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let stream = |chunk: &str, count: usize| format!("{HEAD}{}0\r\n\r\n", chunk.repeat(count));
    // Sizes with blanks behind them, names of parts, and a signature with each.
    let signed = format!("28;chunk-signature={}\r\n{}\r\n", "a".repeat(64), "x".repeat(40));
    for (chunk, data) in [("1      \r\nx\r\n", 1), ("4;index=7;part=2\r\nabcd\r\n", 4), (&signed, 40)] {
        let bytes = stream(chunk, 4000);
        let (status, body, left, complete) = read(bytes.as_bytes(), bytes.len()).expect(chunk);
        assert_eq!((status, body.len(), left, complete), (200, 4000 * data, 0, true), "{chunk}");
    }
    let empty_words = format!("1;{}\r\nx\r\n", "y".repeat(100));
    for endless in [stream(&empty_words, 4000), format!("{HEAD}1;{}", "y".repeat(20_000)), stream("0\r\n", 1) + "x"] {
        let refused = read(endless.as_bytes(), endless.len());
        assert!(refused.is_err() || refused.as_ref().is_ok_and(|(_, _, left, _)| *left > 0), "{}", &endless[..99]);
    }
}

/// RFC 9112, section 5.1.
#[test]
fn blanks_may_stand_before_the_colon_of_a_field() {
    let spaced = b"HTTP/1.1 200 OK\r\nContent-Type : text/event-stream\r\nContent-Length \t: 2\r\n\r\nok";
    assert_eq!(read_all_ways(spaced), Ok((200, b"ok".to_vec(), 0, true)));
    assert!(read_all_ways(b"HTTP/1.1 200 OK\r\nContent Length: 2\r\n\r\nok").is_err());
}

/// RFC 9112, section 5.2.
#[test]
fn fields_may_go_on_in_the_next_line() {
    let folded =
        b"HTTP/1.1 200 OK\r\nX-Why: long\r\n  words\r\n\tand more\r\nContent-Length:\r\n 5\r\nX: \r\n \r\n\r\nhello";
    assert_eq!(read_all_ways(folded), Ok((200, b"hello".to_vec(), 0, true)));
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding:\r\n chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n";
    assert_eq!(read_all_ways(chunked), Ok((200, b"x".to_vec(), 0, true)));
    assert!(read_all_ways(b"HTTP/1.1 200 OK\r\n X: of what?\r\n\r\n").is_err());
}

#[test]
fn what_names_no_coding_is_none() {
    let plain = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\nContent-Length: 2\r\n\r\nok";
    assert_eq!(read_all_ways(plain), Ok((200, b"ok".to_vec(), 0, true)));
    for (field, expected) in [
        ("none", Encoding::Identity),
        ("UTF-8", Encoding::Identity),
        ("identity", Encoding::Identity),
        ("", Encoding::Identity),
        ("gzip", Encoding::Gzip),
        ("X-GZip", Encoding::Gzip),
        ("identity, gzip", Encoding::Gzip),
        ("deflate", Encoding::Deflate),
        ("br", Encoding::Unknown),
        ("zstd", Encoding::Unknown),
        ("gzip, br", Encoding::Unknown),
    ] {
        let mut reader = ReplyReader::default();
        reader.feed(format!("HTTP/1.1 200 OK\r\nContent-Encoding: {field}\r\n\r\n").as_bytes()).unwrap();
        assert_eq!(reader.head().unwrap().encoding, expected, "{field}");
    }
}

#[test]
fn interim_replies_are_passed_over() {
    let bytes = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx";
    assert_eq!(read_all_ways(bytes), Ok((200, b"x".to_vec(), 0, true)));
    assert!(read_all_ways(b"HTTP/1.1 101 Switching Protocols\r\n\r\n").is_err());
    let waiting = |count: usize| {
        let bytes =
            [&b"HTTP/1.1 102 Processing\r\n\r\n".repeat(count)[..], b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"];
        let bytes = bytes.concat();
        read(&bytes, bytes.len())
    };
    assert_eq!(waiting(600), Ok((200, Vec::new(), 0, true)), "one every second, for ten minutes");
    assert!(waiting(10_001).is_err());
}

#[test]
fn a_length_may_be_repeated() {
    let reply = |length: &str| {
        let bytes = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\nok");
        read(bytes.as_bytes(), bytes.len())
    };
    assert_eq!(
        [reply("2, 2"), reply("2,2 , 2")],
        [Ok((200, b"ok".to_vec(), 0, true)), Ok((200, b"ok".to_vec(), 0, true))]
    );
    assert!([reply("2, 3"), reply("2,"), reply(", 2")].iter().all(Result::is_err));
}

#[test]
fn bytes_beyond_the_reply_are_left() {
    let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokEXTRA";
    assert_eq!(read(bytes, bytes.len()), Ok((200, b"ok".to_vec(), 5, true)));
    let empty = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nx";
    assert_eq!(read(empty, empty.len()), Ok((200, Vec::new(), 1, true)));
}

#[test]
fn truncated_replies_say_how_far_they_came() {
    for (bytes, text) in [
        (&b""[..], "before any reply"),
        (b"HTTP/1.1 200 OK\r\nCont", "within the head"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", "after 3 of the reply's 9 bytes"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", "chunked reply, after 2 bytes"),
    ] {
        let mut reader = ReplyReader::with_part_length("Inference-Header-Content-Length");
        let mut at = 0;
        while at < bytes.len() {
            at += reader.feed(&bytes[at..]).unwrap().taken;
        }
        let message = reader.end().unwrap_err().to_string();
        assert!(message.contains(text), "{message}");
    }
}

#[test]
fn nonsense_is_refused() {
    for bytes in [
        &b"hello there, this is no HTTP\r\n\r\n"[..],
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 2x0 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nInference-Header-Content-Length: 4\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n11111111111111111\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc",
    ] {
        assert!(read_all_ways(bytes).is_err(), "{}", String::from_utf8_lossy(bytes));
    }
    let mut endless = b"HTTP/1.1 200 OK\r\nX: ".to_vec();
    endless.resize(MAX_HEAD_BYTES * 2, b'x');
    assert!(read_all_ways(&endless).is_err());
    for blank in [&b"\r\n"[..], b"\n"] {
        let endless = blank.repeat(MAX_HEAD_BYTES + 1);
        for piece in [64, 4096, endless.len()] {
            let refusal = read(&endless, piece).unwrap_err().to_string();
            assert!(refusal.contains("longer than 65536 bytes"), "pieces of {piece}: {refusal}");
        }
        let some = [&blank.repeat(9)[..], b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx"].concat();
        assert_eq!(read_all_ways(&some), Ok((200, b"x".to_vec(), 0, true)));
    }
    // Gateways add dozens of their own.
    let fields = |count| [&b"HTTP/1.0 200 OK\r\n"[..], &b"A: b\r\n".repeat(count), b"\r\nx"].concat();
    assert_eq!(read_all_ways(&fields(200)), Ok((200, b"x".to_vec(), 0, true)));
    assert!(read_all_ways(&fields(MAX_HEADERS + 1)).is_err());
}

#[test]
fn field_names_are_known_in_any_case() {
    for name in ["content-length", "CONTENT-LENGTH", "cOnTeNt-lEnGtH"] {
        let bytes = format!("HTTP/1.1 200 OK\r\n{name}: 2\r\n\r\nok");
        assert_eq!(read_all_ways(bytes.as_bytes()), Ok((200, b"ok".to_vec(), 0, true)), "{name}");
    }
    let chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n";
    assert_eq!(read_all_ways(chunked), Ok((200, b"x".to_vec(), 0, true)));
    let mut reader = ReplyReader::with_part_length("Inference-Header-Content-Length");
    reader.feed(b"HTTP/1.1 200 OK\r\ninference-header-content-length: 1\r\nCoNtEnT-Length: 3\r\n\r\n").unwrap();
    assert_eq!(reader.head().unwrap().part_length, Some(1));
}

#[test]
fn a_length_is_digits_up_to_the_largest_number() {
    let length = |value: &str| {
        let mut reader = ReplyReader::default();
        reader.feed(format!("HTTP/1.1 200 OK\r\nContent-Length: {value}\r\n\r\n").as_bytes())?;
        Ok::<_, Malformed>(reader.head().unwrap().length)
    };
    assert_eq!(length("0"), Ok(Some(0)));
    assert_eq!(length("007"), Ok(Some(7)));
    assert_eq!(length("18446744073709551615"), Ok(Some(u64::MAX)));
    for value in ["18446744073709551616", "184467440737095516150", "", "+1", "1 2", "0x1", "1,2", "\u{661}"] {
        assert!(length(value).is_err(), "{value}");
    }
}

#[test]
fn keeping_the_connection_follows_version_and_header() {
    for (bytes, open) in [
        (&b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"[..], true),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: foo, Close\r\n\r\n", false),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", false),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: Keep-Alive\r\n\r\n", true),
        (b"HTTP/1.1 200 OK\r\n\r\n", false),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\nConnection: keep-alive\r\n\r\n", false),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive\r\nConnection: close\r\n\r\n", false),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive,\r\n\tclose\r\n\r\n", false),
    ] {
        let mut reader = ReplyReader::with_part_length("Inference-Header-Content-Length");
        reader.feed(bytes).unwrap();
        assert_eq!(reader.head().unwrap().keeps_open, open, "{}", String::from_utf8_lossy(bytes));
    }
}

/// Random cuts and random damage never panic and never stall.
#[test]
fn damaged_replies_never_panic() {
    use rand::{RngExt, SeedableRng};
    let mut random = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(7);
    let samples: [&[u8]; 3] = [
        b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\nInference-Header-Content-Length: 4\r\n\r\n{..}12345678",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\n0123456789\r\n0\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 500 No\r\nConnection: keep-alive\r\n\r\n{\"error\":\"x\"}",
    ];
    for round in 0..20_000 {
        let mut bytes = samples[round % samples.len()].to_vec();
        for _ in 0..random.random_range(0..4) {
            let at = random.random_range(0..bytes.len());
            bytes[at] = random.random();
        }
        bytes.truncate(random.random_range(0..=bytes.len()));
        let _ = read(&bytes, random.random_range(1..40));
    }
}

#[test]
fn event_streams_are_told_from_other_content() {
    for (kind, events) in [
        ("text/event-stream", true),
        ("Text/Event-Stream; charset=utf-8", true),
        ("text/event-stream ;charset=utf-8", true),
        ("text/event-streams", false),
        ("text/event", false),
        ("application/json", false),
        ("", false),
    ] {
        let mut reader = ReplyReader::default();
        reader
            .feed(format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: 0\r\n\r\n").as_bytes())
            .unwrap();
        assert_eq!(reader.head().unwrap().events, events, "{kind}");
    }
}

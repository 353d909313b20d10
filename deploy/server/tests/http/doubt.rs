//! Tool calls of which nobody knows whether they happened.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use axum::{Router, extract::State, routing::post};
use serde_json::{Value, json};

use crate::support::{Server, counts, form};

/// A tool that counts its calls and never answers the first ones.
async fn tool(silent: usize) -> (String, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let answer = move |State(calls): State<Arc<AtomicUsize>>| async move {
        if calls.fetch_add(1, Ordering::SeqCst) < silent {
            std::future::pending::<()>().await;
        }
        "refunded"
    };
    let router = Router::new().route("/refund", post(answer)).with_state(calls.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/refund", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (url, calls)
}

fn agent(url: &str) -> String {
    format!(
        "id = \"support\"\n[model]\nprovider = \"demo\"\nid = \"demo\"\n[[tools]]\ntype = \"http\"\nname = \"refund\"\n\
         description = \"Refunds.\"\nmethod = \"POST\"\nurl = \"{url}\"\n\
         parameters = {{ type = \"object\", properties = {{ order = {{ type = \"string\" }} }} }}\n"
    )
}

/// A run that is in doubt about its refunds, after a restart in the middle of them.
async fn in_doubt(message: &str, silent: usize) -> (Server, String, Value, Arc<AtomicUsize>) {
    let (url, calls) = tool(silent).await;
    let server = Server::with(&[("support", &agent(&url))], &[]).await;
    let run = server.background("support", &[("message", message), ("session_id", "s")]).await;
    while calls.load(Ordering::SeqCst) < silent {
        tokio::task::yield_now().await;
    }
    let server = server.restart().await;
    let paused = server.until(&run, "PAUSED").await;
    (server, run, paused, calls)
}

fn call_ids(run: &Value) -> Vec<String> {
    let waiting = run["requirements"].as_array().unwrap().iter();
    waiting.map(|requirement| requirement["tool_execution"]["tool_call_id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_call_in_doubt_pauses_the_run_until_somebody_decides() {
    for (decision, calls_after, result) in [
        (json!({"result": "done by hand"}), 1, "done by hand"),
        (json!({"confirmed": true}), 2, "refunded"),
        (json!({"confirmed": false}), 1, "it was decided not to make this call"),
    ] {
        let (server, run, paused, calls) = in_doubt("refund {\"order\":\"17\"}", 1).await;
        let mut call = decision.clone();
        call["tool_call_id"] = json!(call_ids(&paused)[0]);
        let fields = [("tools", json!([call]).to_string()), ("stream", "false".to_owned())];
        let fields: Vec<_> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let path = format!("/agents/support/runs/{run}/continue");
        let ended = server.form(&path, &fields).await.expect(200).json();
        assert_eq!(ended["status"], "COMPLETED", "{decision}");
        assert!(ended["tools"][0]["result"].as_str().unwrap().contains(result), "{}", ended["tools"][0]);
        assert_eq!(calls.load(Ordering::SeqCst), calls_after, "{decision}");
        server.form(&path, &fields).await.expect(409);
    }
}

#[tokio::test]
async fn a_paused_run_is_replayed_with_what_it_waits_for_and_streams_on_after_the_decision() {
    let (server, run, paused, _) = in_doubt("refund {\"order\":\"17\"}", 1).await;
    let replay = server.whole_stream(form(&format!("/agents/support/runs/{run}/resume"), &[])).await;
    assert_eq!(replay[0].data["status"], "PAUSED");
    let pause = replay.last().unwrap();
    assert_eq!(pause.name, "RunPaused");
    assert_eq!(pause.data["tools"][0]["tool_args"], json!({"order": "17"}));
    assert_eq!(pause.data["tools"][0]["requires_confirmation"], true);
    let tools = json!([{"tool_call_id": call_ids(&paused)[0], "result": "ok"}]).to_string();
    let path = format!("/agents/support/runs/{run}/continue");
    let frames = server.whole_stream(form(&path, &[("tools", &tools)])).await;
    let counts = counts(&frames);
    assert_eq!((counts["ToolCallCompleted"], counts["RunContinued"], counts["RunCompleted"]), (1, 1, 1));
    assert!(frames[0].index() > pause.index());
}

#[tokio::test]
async fn a28_the_run_waits_until_every_call_is_decided() {
    let (server, run, paused, calls) = in_doubt("refund {\"order\":\"1\"} and refund {\"order\":\"2\"}", 2).await;
    let ids = call_ids(&paused);
    assert_eq!(ids.len(), 2);
    let path = format!("/agents/support/runs/{run}/continue");
    let tools = json!([{"tool_call_id": ids[0], "confirmed": false}]).to_string();
    let first = server.form(&path, &[("tools", &tools), ("stream", "false")]).await.expect(200).json();
    assert_eq!(first["status"], "PAUSED");
    assert_eq!(call_ids(&first), [ids[1].clone()]);
    let tools = json!([{"tool_call_id": ids[1], "confirmed": true}]).to_string();
    let second = server.form(&path, &[("tools", &tools), ("stream", "false")]).await.expect(200).json();
    assert_eq!(second["status"], "COMPLETED");
    assert_eq!(calls.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn a_decision_that_cannot_be_made_is_refused() {
    let (server, run, paused, _) = in_doubt("refund {\"order\":\"17\"}", 1).await;
    let path = format!("/agents/support/runs/{run}/continue");
    for (status, tools) in [
        (422, "{}".to_owned()),
        (422, "[]".to_owned()),
        (422, "[{}]".to_owned()),
        (422, json!([{"tool_call_id": call_ids(&paused)[0]}]).to_string()),
        (422, json!([{"tool_call_id": call_ids(&paused)[0], "result": 5}]).to_string()),
        (409, json!([{"tool_call_id": "other", "confirmed": true}]).to_string()),
    ] {
        server.form(&path, &[("tools", &tools)]).await.expect(status);
    }
    server.form(&path, &[]).await.expect(422);
    server.until(&run, "PAUSED").await;
}

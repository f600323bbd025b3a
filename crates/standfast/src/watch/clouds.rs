//! What clouds say of a machine that they are about to take away. The questions are theirs; what an answer means is
//! decided here, without asking anybody.

use super::CloudAddress;
use super::http::{HttpAnswer, HttpRequest, ask};
use serde::Deserialize;
use std::io;
use std::time::Duration;

/// Time for each step of a request. The service is on the same machine.
const LIMIT: Duration = Duration::from_secs(2);

/// A cloud.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cloud {
    /// Amazon's: two minutes' notice.
    Aws,
    /// Google's: thirty seconds.
    Gcp,
    /// Microsoft's: thirty seconds or more.
    Azure,
}

/// <https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html>
const AWS_TOKEN: HttpRequest<'_> =
    HttpRequest { method: "PUT", path: "/latest/api/token", headers: &["X-aws-ec2-metadata-token-ttl-seconds: 60"] };
const AWS_ACTION: &str = "/latest/meta-data/spot/instance-action";

/// <https://cloud.google.com/compute/docs/instances/create-use-spot#detect-preemption>
const GCP: HttpRequest<'_> = HttpRequest {
    method: "GET",
    path: "/computeMetadata/v1/instance/preempted",
    headers: &["Metadata-Flavor: Google"],
};

/// <https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events>
const AZURE_EVENTS: HttpRequest<'_> = HttpRequest {
    method: "GET",
    path: "/metadata/scheduledevents?api-version=2020-07-01",
    headers: &["Metadata: true"],
};
const AZURE_NAME: HttpRequest<'_> = HttpRequest {
    method: "GET",
    path: "/metadata/instance/compute/name?api-version=2021-02-01&format=text",
    headers: &["Metadata: true"],
};
/// Events after which the program is gone. A freeze only stops the machine for some seconds.
const AZURE_ENDS: [&str; 4] = ["Preempt", "Terminate", "Reboot", "Redeploy"];

impl CloudAddress {
    /// Asks the cloud. Returns its notice, if there is one.
    pub(super) fn notice(self) -> io::Result<Option<String>> {
        let ask = |request| ask(self.address, request, LIMIT);
        match self.cloud {
            Cloud::Aws => {
                let token = good(ask(AWS_TOKEN)?)?;
                let header = format!("X-aws-ec2-metadata-token: {}", token.trim());
                aws(ask(HttpRequest { method: "GET", path: AWS_ACTION, headers: &[&header] })?)
            }
            Cloud::Gcp => gcp(&good(ask(GCP)?)?),
            Cloud::Azure => {
                let events = good(ask(AZURE_EVENTS)?)?;
                azure(&events, || good(ask(AZURE_NAME)?))
            }
        }
    }
}

fn good(answer: HttpAnswer) -> io::Result<String> {
    match answer.status {
        200 => Ok(answer.body),
        status => Err(io::Error::other(format!("the metadata service answered with status {status}"))),
    }
}

/// There is nothing at that path until the machine is about to be taken away.
fn aws(answer: HttpAnswer) -> io::Result<Option<String>> {
    #[derive(Deserialize)]
    struct Action {
        action: String,
        time: String,
    }
    if answer.status == 404 {
        return Ok(None);
    }
    let Action { action, time } = serde_json::from_str(&good(answer)?)?;
    Ok(Some(format!("AWS will {action} this machine at {time}")))
}

fn gcp(body: &str) -> io::Result<Option<String>> {
    match body.trim() {
        "TRUE" => Ok(Some("Google Cloud preempts this machine".to_owned())),
        "FALSE" => Ok(None),
        other => Err(io::Error::other(format!("the metadata service answered {other:?}"))),
    }
}

/// The list also has events of other machines that are managed together with this one.
fn azure(events: &str, name: impl FnOnce() -> io::Result<String>) -> io::Result<Option<String>> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Document {
        events: Vec<ScheduledEvent>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct ScheduledEvent {
        event_type: String,
        resources: Vec<String>,
        #[serde(default)]
        not_before: String,
    }
    let Document { events } = serde_json::from_str(events)?;
    let mut ends = events.into_iter().filter(|event| AZURE_ENDS.contains(&event.event_type.as_str())).peekable();
    if ends.peek().is_none() {
        return Ok(None);
    }
    let name = name()?;
    let own = ends.find(|event| event.resources.iter().any(|resource| resource == name.trim()));
    Ok(own.map(|ScheduledEvent { event_type, not_before, .. }| {
        let when = if not_before.is_empty() { "now".to_owned() } else { format!("at {not_before}") };
        format!("Azure announces {event_type} of this machine, {when}")
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, body: &str) -> HttpAnswer {
        HttpAnswer { status, body: body.to_owned() }
    }

    #[test]
    fn aws_says_nothing_until_it_takes_the_machine() {
        assert_eq!(aws(answer(404, "")).unwrap(), None);
        let body = r#"{"action": "terminate", "time": "2026-11-26T18:00:00Z"}"#;
        let notice = aws(answer(200, body)).unwrap().unwrap();
        assert_eq!(notice, "AWS will terminate this machine at 2026-11-26T18:00:00Z");
        assert!(aws(answer(401, "")).is_err() && aws(answer(200, "<html>")).is_err());
    }

    #[test]
    fn google_says_true_or_false() {
        assert_eq!(gcp("FALSE\n").unwrap(), None);
        assert!(gcp("TRUE").unwrap().is_some() && gcp("perhaps").is_err());
    }

    #[test]
    fn azure_lists_events_of_which_only_some_end_this_machine() {
        let events = |kind: &str, machine: &str| {
            format!(
                r#"{{"DocumentIncarnation":1,"Events":[{{"EventId":"f","EventType":"{kind}","ResourceType":"VirtualMachine",
                "Resources":["{machine}"],"EventStatus":"Scheduled","NotBefore":"Mon, 19 Sep 2026 18:29:47 GMT"}}]}}"#
            )
        };
        let own = || Ok("heat-7".to_owned());
        assert_eq!(azure(r#"{"DocumentIncarnation":0,"Events":[]}"#, own).unwrap(), None);
        assert_eq!(azure(&events("Freeze", "heat-7"), own).unwrap(), None);
        assert_eq!(azure(&events("Preempt", "heat-8"), own).unwrap(), None);
        let notice = azure(&events("Preempt", "heat-7"), own).unwrap().unwrap();
        assert!(notice.contains("Preempt") && notice.contains("18:29:47"), "{notice}");
        assert!(azure("{}", own).is_err());
    }
}

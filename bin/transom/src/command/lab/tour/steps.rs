//! What is shown, in which order.

/// A step.
pub(super) struct Step {
    /// What it is about.
    pub(super) title: &'static str,
    /// What to know before the command runs.
    pub(super) text: &'static str,
    /// The command.
    pub(super) command: &'static str,
    /// Another one that gives it something to see.
    pub(super) beside: Option<&'static str>,
}

const fn step(title: &'static str, text: &'static str, command: &'static str) -> Step {
    Step { title, text, command, beside: None }
}

/// All steps. Their pods and Services are those of the built-in lab.
pub(super) const STEPS: &[Step] = &[
    step(
        "What is here",
        "A lab is a cluster in namespaces of this machine: nodes, a router between them, and a host outside.\n\
         Its Windows nodes have an HNS and a switch of their own, and pods with real sockets.",
        "transom lab status",
    ),
    step(
        "A pod asks a Service",
        "The pod client-win1 asks the Service web by its name. kube-proxy has told HNS of the Service, and the switch leads\n\
         the connection to one of its pods. Nothing is printed if the connection works.",
        "transom lab exec client-win1 -- transom agnhost connect web:80",
    ),
    step(
        "Names on Windows",
        "A pod on Windows has one suffix, that of its Kubernetes namespace. On Linux there would be a list of three.",
        "transom lab exec client-win1 -- cat /etc/resolv.conf",
    ),
    step(
        "A name that is found",
        "A name without a dot gets the suffix. Every question to the DNS server is shown, and what Linux would have asked.",
        "transom resolve --pod client-win1 web",
    ),
    step(
        "A name that is not",
        "A name with a dot is taken for fully qualified on Windows, so that no suffix is tried. Linux finds this one:\n\
         it is the reason why manifests that work on Linux nodes do not on Windows nodes.",
        "transom resolve --pod client-win1 web.default",
    ),
    Step {
        title: "Packets, and what became of them",
        text: "The switch itself captures: behind each packet stand the layer and rule that decided, and where it went.\n\
               The pod sends to the address of the Service, and the rule of the pod that it is led to is the one that is named.\n\
               With -w FILE the same is pcapng for Wireshark.",
        command: "transom lab capture client-win1 tcp and port 80 --count 6 --seconds 5 --summary",
        beside: Some("transom lab exec client-win1 -- transom agnhost connect web:80"),
    },
    step(
        "The ports of a switch",
        "Every pod has a port on the switch of its node. One more leads to the wire, one to the node itself, and one is the\n\
         tunnel to the other nodes: packets of an overlay travel in VXLAN. Try `transom lab capture router` to see them.",
        "transom lab exec node/win1 -- transom vfp port list --vswitchd /run/lab/node/win1/vswitchd.sock",
    ),
    step(
        "Load balancers of HNS",
        "For every Service kube-proxy makes load balancers on every node. Microsoft's hnsdiag would print them so.",
        "transom lab exec node/win1 -- transom hnsdiag list loadbalancers --hnsd unix:/run/lab/node/win1/hnsd.sock",
    ),
    step(
        "From outside",
        "The Service web-public is of type LoadBalancer. The lab has given it an address, and the router leads there;\n\
         the host outside is no part of the cluster.",
        "transom lab exec outside -- transom agnhost connect 198.51.100.1:80",
    ),
    step(
        "The registry of a container",
        "Windows programs read their network from the registry. A container of the lab has one with the same keys.",
        "transom container registry client-win1 --key HKLM\\SYSTEM\\CurrentControlSet\\Services\\Tcpip\\Parameters",
    ),
    step(
        "All flows at once",
        "The pages of Kubernetes on Windows list who should reach whom. All of that is tried with real packets, over TCP and\n\
         UDP, IPv4 and IPv6, on one node and across.",
        "transom lab flows",
    ),
    step("A picture", "The whole lab as an SVG, for a browser or a document.", "transom lab graph --file /tmp/transom-lab.svg"),
];

//! Kubernetes' own API server on an etcd of its own: how both are started, and how clients reach the server.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

/// Known to nobody else: the server is reached from inside a test or on loopback only, and lives no longer than what it is for.
const TOKEN: &str = "transom-interop";

/// Where the programs are, where they keep their state, and where they listen.
pub(crate) struct ControlPlane {
    /// The directory of `etcd` and `kube-apiserver`.
    pub(crate) programs: PathBuf,
    /// The directory of their state. It is there.
    pub(crate) state: PathBuf,
    /// Where the server listens.
    pub(crate) address: SocketAddr,
    /// Where etcd listens on loopback: for the server, and for fellows that it does not have.
    pub(crate) etcd: [u16; 2],
    /// The addresses of Services.
    pub(crate) service_cidrs: &'static str,
}

impl ControlPlane {
    /// Writes what the server and its clients read.
    pub(crate) fn write_files(&self) -> io::Result<()> {
        fs::write(self.tokens(), format!("{TOKEN},transom,transom,system:masters\n"))?;
        fs::write(self.kubeconfig(), self.describe())
    }

    /// The file that tells clients where it is.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.state.join("kubeconfig")
    }

    /// How etcd is started.
    pub(crate) fn etcd(&self) -> Command {
        let [client, peer] = self.etcd.map(|port| format!("http://127.0.0.1:{port}"));
        let mut command = Command::new(self.programs.join("etcd"));
        command.arg("--data-dir").arg(self.state.join("etcd"));
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--initial-cluster", &format!("default={peer}")]);
        command
    }

    /// How the server is started. It makes its own certificate, and its key signs tokens of service accounts too. The admission of service
    /// accounts is off: it mounts tokens that nobody reads here.
    pub(crate) fn apiserver(&self) -> Command {
        let ip = self.address.ip();
        let mut command = Command::new(self.programs.join("kube-apiserver"));
        command.args([
            format!("--bind-address={ip}"),
            format!("--advertise-address={ip}"),
            format!("--secure-port={}", self.address.port()),
        ]);
        if ip.is_loopback() {
            // No Service may lead to loopback, not even the server's own.
            command.arg("--endpoint-reconciler-type=none");
        }
        command.args([
            format!("--etcd-servers=http://127.0.0.1:{}", self.etcd[0]),
            format!("--service-cluster-ip-range={}", self.service_cidrs),
        ]);
        command.args(["--service-node-port-range=30000-32767", "--anonymous-auth=false", "--authorization-mode=RBAC"]);
        command.args(["--disable-admission-plugins=ServiceAccount", "--max-requests-inflight=2000"]);
        command.arg("--service-account-issuer=https://kubernetes.default.svc");
        let key = self.certificates().join("apiserver.key");
        for (option, file) in [
            ("--cert-dir", self.certificates()),
            ("--token-auth-file", self.tokens()),
            ("--service-account-key-file", key.clone()),
            ("--service-account-signing-key-file", key),
        ] {
            command.arg(option).arg(file);
        }
        command
    }

    fn certificates(&self) -> PathBuf {
        self.state.join("certificates")
    }

    fn tokens(&self) -> PathBuf {
        self.state.join("tokens.csv")
    }

    fn describe(&self) -> String {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: original\n\
            clusters:\n- name: original\n  cluster:\n    server: https://{}\n    certificate-authority: {}\n\
            users:\n- name: original\n  user:\n    token: {TOKEN}\n\
            contexts:\n- name: original\n  context:\n    cluster: original\n    user: original\n",
            self.address,
            self.certificates().join("apiserver.crt").display()
        )
    }
}

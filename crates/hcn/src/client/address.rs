//! Where hnsd listens, and how a program finds out.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::{env, fmt, fs, io};

use crate::error::{Error, Result, detail};

/// The variable that names hnsd's address.
const ADDRESS_VARIABLE: &str = "TRANSOM_HNSD";
/// The variable that names the file with the token.
const TOKEN_VARIABLE: &str = "TRANSOM_TOKEN_FILE";
/// A token is a short line; anything longer is the wrong file.
const TOKEN_MAX: u64 = 4096;

/// Where hnsd listens unless told otherwise: one for the machine, and one for each user who is not root.
#[cfg(unix)]
pub fn default_socket() -> PathBuf {
    match nix::unistd::geteuid().is_root() {
        true => "/run/transom/hnsd.sock".into(),
        false => user_directory("XDG_RUNTIME_DIR").join("hnsd.sock"),
    }
}

/// Where hnsd keeps its state unless told otherwise: one place for the machine, and one for each user who is not root.
#[cfg(unix)]
pub fn default_state_directory() -> PathBuf {
    match nix::unistd::geteuid().is_root() {
        true => "/var/lib/transom".into(),
        false => user_directory("XDG_STATE_HOME"),
    }
}

/// A directory of the user's: below the one the variable names, else below the home directory.
#[cfg(unix)]
fn user_directory(name: &str) -> PathBuf {
    let home = || Path::new(&variable("HOME").unwrap_or_else(|| "/".to_owned())).join(".local/state");
    variable(name).map_or_else(home, PathBuf::from).join("transom")
}

/// Where hnsd listens.
#[derive(Clone, PartialEq, Eq)]
pub enum Address {
    /// A Unix socket.
    #[cfg(unix)]
    Unix(PathBuf),
    /// A TCP port on loopback, with the token that it asks for.
    Tcp {
        /// Address and port.
        address: SocketAddr,
        /// The token.
        token: String,
    },
}

impl Address {
    /// The address that the surroundings name: the variable `TRANSOM_HNSD` (`unix:/path`, a path, or `127.0.0.1:PORT`
    /// together with `TRANSOM_TOKEN_FILE`), on Windows else the file `%ProgramData%\transom\hnsd.json`, else the usual place.
    pub fn from_environment() -> Result<Self> {
        let token_file = variable(TOKEN_VARIABLE).map(PathBuf::from);
        match variable(ADDRESS_VARIABLE) {
            Some(address) => Self::parse(&address, token_file.as_deref()),
            None => Self::unnamed(token_file),
        }
    }

    /// The address in a text, as in `TRANSOM_HNSD`.
    pub fn parse(text: &str, token_file: Option<&Path>) -> Result<Self> {
        if let Ok(address) = text.parse::<SocketAddr>() {
            let token = read_token(token_file)?;
            return Ok(Self::Tcp { address, token });
        }
        Self::parse_socket(text)
    }

    /// What to do when nothing answers there.
    pub(super) fn remedy(&self) -> String {
        match self {
            #[cfg(unix)]
            Self::Unix(path) if *path == default_socket() => "start it with `transom hnsd`".to_owned(),
            #[cfg(unix)]
            Self::Unix(path) => {
                format!("start it with `transom hnsd --socket {}`, or name another in {ADDRESS_VARIABLE}", path.display())
            }
            Self::Tcp { address, .. } => {
                format!("start it with `transom hnsd --listen {address} --token-file FILE`, or name another in {ADDRESS_VARIABLE}")
            }
        }
    }

    #[cfg(unix)]
    fn parse_socket(text: &str) -> Result<Self> {
        let path = text.strip_prefix("unix:").unwrap_or(text);
        // A relative path would mean another socket in every directory, and is nearly always a mistyped port.
        if path.starts_with('/') { Ok(Self::Unix(path.into())) } else { Err(not_an_address(text)) }
    }

    #[cfg(not(unix))]
    fn parse_socket(text: &str) -> Result<Self> {
        Err(not_an_address(text))
    }

    #[cfg(unix)]
    fn unnamed(_token_file: Option<PathBuf>) -> Result<Self> {
        Ok(Self::Unix(default_socket()))
    }

    /// On Windows there is no usual place; an installation leaves a file that says where.
    #[cfg(not(unix))]
    fn unnamed(token_file: Option<PathBuf>) -> Result<Self> {
        let directory = variable("ProgramData").unwrap_or_else(|| r"C:\ProgramData".to_owned());
        let file = Path::new(&directory).join("transom").join("hnsd.json");
        let text = fs::read_to_string(&file).map_err(|error| {
            let cause = format!("{ADDRESS_VARIABLE} is not set and {} cannot be read: {error}", file.display());
            Error::ServiceUnavailable(detail(cause).remedy(format!("start `transom hnsd --listen ADDRESS` and set {ADDRESS_VARIABLE}")))
        })?;
        Self::from_config(&text, token_file).map_err(|error| error.within(&file.display().to_string()))
    }

    /// Reads the file an installation leaves: `{"Address":"127.0.0.1:7777","TokenFile":"…"}`.
    #[cfg(any(not(unix), test))]
    fn from_config(text: &str, token_file: Option<PathBuf>) -> Result<Self> {
        let config = crate::document::parse_value(text)?;
        let value = |key: &str| config.get(key).and_then(serde_json::Value::as_str);
        let address = value("Address").ok_or_else(|| not_an_address("").within("Address"))?;
        let token_file = token_file.or_else(|| value("TokenFile").map(PathBuf::from));
        Self::parse(address, token_file.as_deref())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            #[cfg(unix)]
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp { address, .. } => write!(f, "{address}"),
        }
    }
}

/// As [`Display`](fmt::Display): a token has no place in a log.
impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

fn not_an_address(text: &str) -> Error {
    let forms = if cfg!(unix) { "unix:/PATH or 127.0.0.1:PORT" } else { "127.0.0.1:PORT" };
    Error::InvalidParameter(detail(format!("{text:?} is no address of hnsd")).remedy(format!("write {forms}")))
}

fn read_token(file: Option<&Path>) -> Result<String> {
    let Some(file) = file else {
        let cause = "a TCP address needs a token, and none is named";
        return Err(Error::AccessDenied(detail(cause).remedy(format!("set {TOKEN_VARIABLE} to the file that hnsd wrote its token into"))));
    };
    let failed = |error: io::Error| {
        let cause = detail(format!("the token in {} cannot be read: {error}", file.display()));
        match error.kind() {
            // hnsd writes the file when it starts.
            io::ErrorKind::NotFound => {
                Error::ServiceUnavailable(cause.remedy(format!("start `transom hnsd`, or correct {TOKEN_VARIABLE}")))
            }
            _ => Error::AccessDenied(cause.remedy("run as the user that started hnsd")),
        }
    };
    if fs::metadata(file).map_err(failed)?.len() > TOKEN_MAX {
        return Err(Error::AccessDenied(detail(format!("{} is too large to be a token", file.display()))));
    }
    Ok(fs::read_to_string(file).map_err(failed)?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token_file(name: &str) -> PathBuf {
        let file = env::temp_dir().join(format!("transom-{name}-{}", std::process::id()));
        fs::write(&file, "secret\n").unwrap();
        file
    }

    #[test]
    #[cfg(unix)]
    fn sockets_by_path() {
        let expected = Address::Unix("/tmp/hnsd.sock".into());
        assert_eq!(Address::parse("unix:/tmp/hnsd.sock", None), Ok(expected.clone()));
        assert_eq!(Address::parse("/tmp/hnsd.sock", None), Ok(expected));
        assert_eq!(Address::parse("7777", None).unwrap_err().hresult(), 0x8007_0057);
    }

    #[test]
    fn ports_need_a_token_and_hide_it() {
        assert_eq!(Address::parse("127.0.0.1:7777", None).unwrap_err().hresult(), 0x8007_0005);
        let gone = Address::parse("127.0.0.1:7777", Some(Path::new("/nowhere/token"))).unwrap_err();
        assert_eq!(gone.hresult(), 0x8007_06B5);
        let file = token_file("address");
        let address = Address::parse("127.0.0.1:7777", Some(&file)).unwrap();
        assert!(matches!(&address, Address::Tcp { token, .. } if token == "secret"));
        assert_eq!(format!("{address:?}"), "Address(127.0.0.1:7777)");
        fs::remove_file(file).unwrap();
    }

    #[test]
    fn a_config_file_names_both() {
        let file = token_file("config");
        let config = serde_json::json!({"Address": "127.0.0.1:7777", "TokenFile": file}).to_string();
        assert!(matches!(Address::from_config(&config, None), Ok(Address::Tcp { .. })));
        assert_eq!(Address::from_config("{}", None).unwrap_err().detail().field.as_deref(), Some("Address"));
        fs::remove_file(file).unwrap();
    }
}

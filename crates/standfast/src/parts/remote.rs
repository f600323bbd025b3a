//! The processes of a part that bring commands to other nodes: its server, a shim for each command, and the remote shell
//! that launchers call. They are processes of the job.

use super::agent_protocol::PartCommand;
use super::description::{PartDirectory, write};
use crate::Error;
use standfast_remote::{NodeList, RemoteCommand, Secret, answer, own_streams, run, serve};
use std::ffi::{OsStr, OsString};
use std::net::{IpAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// Names the directory of the part to its processes.
pub(super) const PART_VARIABLE: &str = "STANDFAST_PART";
/// The pause between two looks for the list of nodes.
const NODES_PAUSE: Duration = Duration::from_millis(20);

/// Serves the part in `directory`: begins its command, if it is the first part, and answers other nodes. Returns how the
/// command has ended.
///
/// # Errors
/// When the command cannot begin, or the network fails.
pub fn serve_part(directory: &Path) -> Result<ExitStatus, Error> {
    let part = PartDirectory::at(directory);
    let description = part.description()?;
    let address = address_of(&description.node)?;
    let opening = |error| Error::system("open the port of the part's server")(error);
    let listener = TcpListener::bind((address, 0)).map_err(opening)?;
    let own = listener.local_addr().map_err(opening)?;
    write(&part.address(), 0o600, own.to_string().as_bytes())?;
    let program = std::env::current_exe().map_err(Error::system("find this program"))?;
    let shim = |connection| {
        let mut shim = Command::new(&program);
        shim.arg("part-shim").arg(directory).stdin(Stdio::from(connection));
        with_launchers(&mut shim, &part).spawn()
    };
    let first = description.command.map(|command| begin(&command, &part)).transpose()?;
    serve(&listener, shim, first).map_err(of_remote)
}

/// Begins the command, in the environment in which it was typed, once all nodes can be reached.
fn begin(first: &PartCommand, part: &PartDirectory) -> Result<Child, Error> {
    while !part.nodes().exists() {
        std::thread::sleep(NODES_PAUSE);
    }
    let PartCommand { words, environment } = first;
    let (program, arguments) = words.split_first().ok_or_else(|| Error::Declined("there is no command".into()))?;
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(environment.iter().map(|(name, value)| (name, value)));
    let begun = with_launchers(&mut command, part).spawn();
    begun.map_err(|source| Error::NotStarted { program: program.into(), source })
}

/// Makes the launchers of parallel programs use the job's nodes and its remote shell: Open MPI 4 and 5, and hydra.
fn with_launchers<'a>(command: &'a mut Command, part: &PartDirectory) -> &'a mut Command {
    let (shell, hosts) = (part.shell(), part.hosts());
    command
        .env(PART_VARIABLE, part.path())
        .env("OMPI_MCA_plm_rsh_agent", &shell)
        .env("OMPI_MCA_orte_default_hostfile", &hosts)
        .env("PRTE_MCA_plm_ssh_agent", &shell)
        .env("PRTE_MCA_prte_default_hostfile", &hosts)
        .env("HYDRA_LAUNCHER", "ssh")
        .env("HYDRA_LAUNCHER_EXEC", &shell)
        .env("HYDRA_HOST_FILE", &hosts)
}

/// Returns the address of a node that others can reach.
fn address_of(node: &str) -> Result<IpAddr, Error> {
    let found = (node, 0).to_socket_addrs().map_err(Error::system("find the address of this node"))?;
    let addresses: Vec<IpAddr> = found.map(|address| address.ip()).collect();
    let reachable = addresses.iter().find(|address| !address.is_loopback()).or(addresses.first());
    reachable.copied().ok_or_else(|| Error::Declined(format!("{node} has no address")))
}

/// Answers one connection of the part's server, which is standard input.
///
/// # Errors
/// When whoever has connected does not belong to the job, or the connection fails.
pub fn answer_remote(directory: &Path) -> Result<(), Error> {
    let part = PartDirectory::at(directory);
    let secret = Secret::load(&part.secret()).map_err(of_remote)?;
    let taking = |error| Error::system("take over a connection")(error);
    let connection = std::io::stdin().as_fd().try_clone_to_owned().map(TcpStream::from).map_err(taking)?;
    let nothing = std::fs::File::open("/dev/null").map_err(taking)?;
    rustix::stdio::dup2_stdin(&nothing).map_err(|error| taking(error.into()))?;
    answer(connection, &secret).map_err(of_remote)
}

/// Executes a command on another node of the job that this process belongs to. Returns how it has ended.
///
/// # Errors
/// When this process belongs to no distributed job, or the node cannot be reached.
pub fn ask_remote(node: &str, words: &[OsString]) -> Result<ExitStatus, Error> {
    let Some(directory) = std::env::var_os(PART_VARIABLE) else {
        let why = "rsh works within a distributed job only\nhint: standfast run --nodes a,b -- COMMAND";
        return Err(Error::Declined(why.into()));
    };
    let part = PartDirectory::at(directory);
    let nodes = NodeList::load(&part.nodes()).map_err(of_remote)?;
    let secret = Secret::load(&part.secret()).map_err(of_remote)?;
    let line = words.iter().map(|word| word.as_os_str()).collect::<Vec<&OsStr>>().join(OsStr::new(" "));
    let command = RemoteCommand { node: node.to_owned(), line: line.as_bytes().to_vec() };
    let streams = own_streams().map_err(of_remote)?;
    run(&command, &nodes, &secret, streams).map(ExitStatus::from_raw).map_err(of_remote)
}

fn of_remote(error: standfast_remote::RemoteError) -> Error {
    Error::Declined(error.to_string())
}

//! The configuration files of a cluster.

use super::{Cluster, Options};
use cosy_proto::keys::KeyPair;
use std::fmt::Write as _;
use std::fs;

impl Cluster {
    /// Writes `cosy.toml` and every `noded.toml`.
    ///
    /// # Panics
    /// When it cannot.
    pub fn write_config(&self) {
        fs::write(self.dir().join("cosy.toml"), self.controller_config(0)).expect("cosy.toml");
        for at in 0..self.ports.len() {
            let file = self.dir().join(format!("cosy{}.toml", at + 2));
            fs::write(file, self.controller_config(at + 1)).expect("cosy.toml");
        }
        for at in 0..self.nodes.len() {
            let file = self.node_dir(at).join("noded.toml");
            fs::write(file, self.node_config(at)).expect("noded.toml");
        }
    }

    fn node_name(&self, at: usize) -> String {
        match self.options.virtual_nodes {
            0 => format!("n{}", at + 1),
            count => format!("v{}x[1-{count}]", at + 1),
        }
    }

    /// Where nodes reach each controller, as ports of this host.
    pub fn controller_ports(&self) -> Vec<u16> {
        std::iter::once(self.port)
            .chain(self.ports.iter().copied())
            .collect()
    }

    fn controller_addresses(&self) -> Vec<String> {
        let host = self.options.host;
        let ports = self.controller_ports().into_iter();
        ports.map(|port| format!("{host}:{port}")).collect()
    }

    /// The tables of the controllers, for the one with that number.
    fn controller_tables(&self, own: usize) -> String {
        let o = &self.options;
        let dir = self.dir().display();
        let Some(all) = &o.controllers else {
            return format!(
                "[controller]\nstate_dir = \"{}\"\nkey = \"{dir}/cosyd.key\"\n\
                 socket = \"{}\"\nlisten = \"{}:{}\"\n{}\n",
                self.state_dir().display(),
                self.socket().display(),
                o.host,
                self.port,
                o.controller,
            );
        };
        let mut text = format!("[store]\npostgres = \"{}\"\n{}\n", all.databases[own], all.store);
        for (at, (port, socket)) in self
            .controller_ports()
            .into_iter()
            .zip(self.sockets())
            .enumerate()
        {
            let (number, host) = (at + 1, o.host);
            let _ = writeln!(
                text,
                "[[controller]]\nname = \"c{number}\"\naddress = \"{host}:{port}\"\n\
                 listen = \"{host}:{port}\"\nstate_dir = \"{dir}/state{number}\"\n\
                 key = \"{dir}/cosyd.key\"\nsocket = \"{}\"\n{}",
                socket.display(),
                o.controller
            );
        }
        text
    }

    fn controller_config(&self, own: usize) -> String {
        let o = &self.options;
        let dir = self.dir().display();
        let mut text = format!(
            "[cluster]\nname = \"test\"\n{}\n{}[policy]\n{}\n",
            o.head,
            self.controller_tables(own),
            o.policy,
        );
        for (at, key) in self.keys.iter().enumerate() {
            let name = self.node_name(at);
            let more = (o.entry)(at + 1);
            let _ = writeln!(text, "[[node]]\nnames = \"{name}\"\nkey = \"{key}\"\n{more}");
        }
        let names: Vec<String> = (0..self.keys.len()).map(|at| self.node_name(at)).collect();
        let all = format!(
            "[[queue]]\nname = \"main\"\ndefault = true\nnodes = \"{}\"\n",
            names.join(",")
        );
        text.push_str(o.queues.as_deref().unwrap_or(&all));
        text.replace("DIR", &dir.to_string())
    }

    fn node_config(&self, at: usize) -> String {
        let o = &self.options;
        let folder = self.node_dir(at);
        let folder = folder.display();
        let name = match o.virtual_nodes {
            0 => format!("n{}", at + 1),
            _ => format!("v{}x", at + 1),
        };
        let key = fs::read(self.dir().join("cosyd.key")).expect("the controller's key");
        let key = KeyPair::from_pkcs8(&key).expect("a key").public();
        let more = (o.noded)(at + 1);
        let ways = match &o.controllers {
            None => format!("controller = \"{}:{}\"", o.host, self.port),
            Some(all) => {
                let own = || self.controller_addresses();
                let ways = all.ways.get(at).cloned().unwrap_or_else(own);
                let ways = ways.iter().map(|way| format!("\"{way}\""));
                format!("controllers = [{}]", ways.collect::<Vec<_>>().join(", "))
            }
        };
        let text = format!(
            "name = \"{name}\"\n{ways}\ncontroller_key = \"{key}\"\n\
             key = \"{folder}/key\"\nspool_dir = \"{folder}/spool\"\nallow_root = true\n{}\
             {}{}\n",
            amounts(o),
            // Any free port, unless a test names one.
            match more.contains("listen = ") {
                true => "",
                false => "listen = \"127.0.0.1:0\"\n",
            },
            more,
        );
        text.replace("DIR", &self.dir().display().to_string())
    }
}

/// What the configuration says that a node has.
fn amounts(o: &Options) -> String {
    match o.cores {
        0 => String::new(),
        cores => format!("cores = {cores}\nmemory = \"{}\"\n", o.memory),
    }
}

//! Changes of the members of the ensemble, as a fault: clients ask for them at random.

use pole_jute::{ReconfigRequest, Request};
use pole_types::{Membership, ServerId, Voters};

use crate::ClientOp;
use crate::kv::{Change, MEMBERS, encode_members};
use crate::scripting::id;
use crate::setup::describe;
use crate::world::World;

impl World {
    /// A client asks for other members: one server more or less, or with another part.
    pub(crate) fn change_members(&mut self) {
        let members = self.checker.members();
        let part = |id: ServerId| match (members.voters().contains(id), members.observers().contains(&id)) {
            (true, _) => 0,
            (false, true) => 1,
            (false, false) => 2,
        };
        let mut parts: Vec<u64> = (0..self.hosts.len()).map(|server| part(id(server))).collect();
        let server = self.faults.rng.below(parts.len() as u64) as usize;
        parts[server] = (parts[server] + self.faults.rng.between(1, 3)) % 3;
        let of =
            |part: u64| -> Vec<u64> { (1..).zip(&parts).filter(|(_, of)| **of == part).map(|(id, _)| id).collect() };
        if of(0).is_empty() {
            return;
        }
        if self.setup.tree {
            let ids = |part| of(part).into_iter().map(ServerId);
            return self.sim_client_changes_members(&Membership::new(Voters::new(ids(0)), ids(1)));
        }
        let bits = encode_members(of(0), of(1));
        let asks: Vec<_> = (0..self.clients.len()).filter(|client| self.clients[*client].is_open()).collect();
        if !asks.is_empty() {
            let client = *self.faults.rng.pick(&asks);
            self.send_request(client, ClientOp::Write(Change::Put(MEMBERS, bits)));
        }
    }

    /// A ZooKeeper client asks for these members.
    fn sim_client_changes_members(&mut self, members: &Membership) {
        let asks: Vec<_> = (0..self.sim_clients.len()).filter(|client| self.sim_clients[*client].is_open()).collect();
        if !asks.is_empty() {
            let client = *self.faults.rng.pick(&asks);
            let request = ReconfigRequest {
                joining_servers: None,
                leaving_servers: None,
                new_members: Some(describe(members)),
                cur_config_id: -1,
            };
            self.sim_client_sends(client, Some(Request::Reconfig(request)));
        }
    }
}

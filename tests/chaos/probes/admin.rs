//! AdminService.

use pannier::proto::v1::{self, admin_service_client::AdminServiceClient as Admin};

use super::Probe;

pub fn probes() -> Vec<Probe> {
    let mut all = Vec::new();
    probe!(all, Admin, server_info, "ServerInfo", None, v1::ServerInfoRequest {});
    probe!(all, Admin, key_status, "KeyStatus", None, v1::KeyStatusRequest {});
    probe!(all, Admin, list_sidecars, "ListSidecars", None, v1::ListSidecarsRequest {});
    probe!(all, Admin, doctor, "Doctor", None, v1::DoctorRequest {});
    all
}

import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.CreateDelegationTokenOptions;
import org.apache.kafka.clients.admin.ExpireDelegationTokenOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.RenewDelegationTokenOptions;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UserScramCredentialDeletion;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.errors.GroupAuthorizationException;
import org.apache.kafka.common.errors.ResourceNotFoundException;
import org.apache.kafka.common.errors.SaslAuthenticationException;
import org.apache.kafka.common.errors.SecurityDisabledException;
import org.apache.kafka.common.errors.TopicAuthorizationException;
import org.apache.kafka.common.errors.TransactionalIdAuthorizationException;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.quota.ClientQuotaFilterComponent;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.token.delegation.DelegationToken;

/** Access control, quotas of clients, users with passwords, delegation tokens: as far as the broker is secured. */
final class SecuritySteps {
    private static final String GUEST = "guest";

    static void add(Walk walk) {
        quotas(walk);
        users(walk);
        if (walk.secured()) {
            acls(walk);
        } else {
            walk.step("security: ACLs and tokens without an authorizer and a login", () -> {
                try (Admin admin = walk.admin()) {
                    Walk.fails(SecurityDisabledException.class,
                        () -> admin.describeAcls(AclBindingFilter.ANY).values().get());
                }
            });
        }
        if (walk.loggedIn()) {
            refusals(walk);
            tokens(walk);
        }
    }

    private static void quotas(Walk walk) {
        walk.step("security: quotas of a client id and of a user's clients", () -> {
            String client = walk.named("client");
            List<Map<String, String>> entities = List.of(
                Map.of(ClientQuotaEntity.CLIENT_ID, client),
                Map.of(ClientQuotaEntity.USER, "quota user, with a comma", ClientQuotaEntity.CLIENT_ID, client));
            ClientQuotaFilter filter = ClientQuotaFilter.contains(
                List.of(ClientQuotaFilterComponent.ofEntity(ClientQuotaEntity.CLIENT_ID, client)));
            try (Admin admin = walk.admin()) {
                for (Map<String, String> each : entities) {
                    alter(admin, each, "consumer_byte_rate", 1e6);
                    alter(admin, each, "request_percentage", 12.5);
                }
                Walk.soon("the quotas", () -> {
                    Map<ClientQuotaEntity, Map<String, Double>> found =
                        admin.describeClientQuotas(filter).entities().get();
                    Map<String, Double> expected = Map.of("consumer_byte_rate", 1e6, "request_percentage", 12.5);
                    return found.size() == 2 && found.values().stream().allMatch(expected::equals);
                });
                for (Map<String, String> each : entities) {
                    alter(admin, each, "consumer_byte_rate", null);
                    alter(admin, each, "request_percentage", null);
                }
                Walk.soon("their end", () -> admin.describeClientQuotas(filter).entities().get().isEmpty());
            }
        });
    }

    private static void alter(Admin admin, Map<String, String> entity, String key, Double value) throws Exception {
        ClientQuotaAlteration.Op change = new ClientQuotaAlteration.Op(key, value);
        admin.alterClientQuotas(List.of(new ClientQuotaAlteration(new ClientQuotaEntity(entity), List.of(change))))
            .all().get();
    }

    private static void users(Walk walk) {
        walk.step("security: users of SCRAM", () -> {
            String user = walk.named("user");
            ScramCredentialInfo info = new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 5000);
            try (Admin admin = walk.admin()) {
                admin.alterUserScramCredentials(List.of(new UserScramCredentialUpsertion(user, info, "secret")))
                    .all().get();
                Walk.soon("the user", () -> admin.describeUserScramCredentials(List.of(user)).description(user).get()
                    .credentialInfos().equals(List.of(info)));
                Walk.fails(ResourceNotFoundException.class, () -> admin.alterUserScramCredentials(
                    List.of(new UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_512))).all().get());
                admin.alterUserScramCredentials(
                    List.of(new UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_256))).all().get();
                Walk.soon("its end", () -> !admin.describeUserScramCredentials().users().get().contains(user));
                Walk.fails(ResourceNotFoundException.class,
                    () -> admin.describeUserScramCredentials(List.of(user)).description(user).get());
            }
        });
    }

    private static AclBinding acl(ResourceType type, String name, PatternType pattern, String user,
                                  AclOperation operation, AclPermissionType permission) {
        return new AclBinding(new ResourcePattern(type, name, pattern),
            new AccessControlEntry("User:" + user, "*", operation, permission));
    }

    private static void acls(Walk walk) {
        walk.step("security: ACLs are created, found by filters and deleted", () -> {
            String name = walk.named("acl");
            String user = walk.named("user");
            Set<AclBinding> acls = Set.of(
                acl(ResourceType.TOPIC, name, PatternType.LITERAL, user, AclOperation.READ, AclPermissionType.ALLOW),
                acl(ResourceType.TOPIC, name, PatternType.PREFIXED, user, AclOperation.WRITE, AclPermissionType.DENY),
                acl(ResourceType.GROUP, name, PatternType.LITERAL, user, AclOperation.ALL, AclPermissionType.ALLOW),
                acl(ResourceType.TRANSACTIONAL_ID, name, PatternType.LITERAL, user, AclOperation.WRITE,
                    AclPermissionType.ALLOW));
            AclBindingFilter topics = new AclBindingFilter(
                new ResourcePattern(ResourceType.TOPIC, name, PatternType.LITERAL).toFilter(),
                new AccessControlEntry("User:" + user, "*", AclOperation.READ, AclPermissionType.ALLOW).toFilter());
            try (Admin admin = walk.admin()) {
                admin.createAcls(acls).all().get();
                Walk.soon("the ACLs", () -> {
                    Collection<AclBinding> found = admin.describeAcls(AclBindingFilter.ANY).values().get();
                    return found.containsAll(acls);
                });
                Walk.equal(1, admin.describeAcls(topics).values().get().size());
                Walk.equal(1, admin.deleteAcls(List.of(topics)).all().get().size());
                Walk.soon("the end of one", () -> admin.describeAcls(topics).values().get().isEmpty());
                for (AclBinding each : acls) {
                    admin.deleteAcls(List.of(each.toFilter())).all().get();
                }
                Walk.soon("the end of all", () -> {
                    Collection<AclBinding> left = admin.describeAcls(AclBindingFilter.ANY).values().get();
                    return left.stream().noneMatch(acls::contains);
                });
            }
        });
    }

    private static void denied(Admin admin, ResourceType type, String name, AclOperation operation) throws Exception {
        admin.createAcls(List.of(
            acl(type, name, PatternType.LITERAL, GUEST, operation, AclPermissionType.DENY))).all().get();
    }

    /** Properties that say who a client is, over those of the walk. */
    private static String[] as(String user, String password, String option, String... more) {
        String login = "org.apache.kafka.common.security.scram.ScramLoginModule required username=\"" + user
            + "\" password=\"" + password + "\"" + option + ";";
        String[] all = new String[more.length + 2];
        System.arraycopy(more, 0, all, 2, more.length);
        all[0] = "sasl.jaas.config";
        all[1] = login;
        return all;
    }

    private static String[] guest(String... more) {
        return as(GUEST, GUEST, "", more);
    }

    private static void refusals(Walk walk) {
        walk.step("security: a producer is refused what an ACL denies, until it is gone", () -> {
            String topic = walk.topic(1);
            try (Admin admin = walk.admin(); KafkaProducer<String, String> producer = walk.producer(guest())) {
                producer.send(new ProducerRecord<>(topic, "before")).get();
                denied(admin, ResourceType.TOPIC, topic, AclOperation.WRITE);
                Walk.soon("the denial", () -> {
                    Walk.fails(TopicAuthorizationException.class,
                        () -> producer.send(new ProducerRecord<>(topic, "denied")).get());
                    return true;
                });
                admin.deleteAcls(List.of(acl(ResourceType.TOPIC, topic, PatternType.LITERAL, GUEST,
                    AclOperation.WRITE, AclPermissionType.DENY).toFilter())).all().get();
                Walk.soon("the permission", () -> {
                    producer.send(new ProducerRecord<>(topic, "after")).get();
                    return true;
                });
            }
            // no end of a refused write is there
            Walk.check(!Walk.values(walk.committed(topic, 0)).contains("denied"), "a refused record was written");
        });
        walk.step("security: a consumer is refused a topic and a group", () -> {
            String topic = walk.topic(1);
            String open = walk.topic(1);
            String group = walk.named("group");
            walk.fill(topic, 1, 3);
            try (Admin admin = walk.admin()) {
                denied(admin, ResourceType.TOPIC, topic, AclOperation.READ);
                denied(admin, ResourceType.GROUP, group, AclOperation.READ);
                Walk.soon("the topic's denial", () -> {
                    try (KafkaConsumer<String, String> consumer = walk.consumer(guest())) {
                        consumer.assign(List.of(new TopicPartition(topic, 0)));
                        consumer.seekToBeginning(consumer.assignment());
                        Walk.fails(TopicAuthorizationException.class, () -> Walk.read(consumer, 3));
                    }
                    return true;
                });
                Walk.soon("the group's denial", () -> {
                    try (KafkaConsumer<String, String> consumer = walk.consumer(guest("group.id", group))) {
                        consumer.subscribe(List.of(open));
                        Walk.fails(GroupAuthorizationException.class, () -> consumer.poll(Walk.LONG));
                    }
                    return true;
                });
            }
        });
        walk.step("security: a transactional producer is refused its id", () -> {
            String id = walk.named("tx");
            try (Admin admin = walk.admin()) {
                denied(admin, ResourceType.TRANSACTIONAL_ID, id, AclOperation.WRITE);
                Walk.soon("the denial", () -> {
                    try (KafkaProducer<String, String> producer = walk.producer(guest("transactional.id", id))) {
                        Walk.fails(TransactionalIdAuthorizationException.class, producer::initTransactions);
                    }
                    return true;
                });
            }
        });
        walk.step("security: an administrator is refused, and sees no topic that is denied", () -> {
            String topic = walk.topic(1);
            try (Admin admin = walk.admin(); Admin other = walk.admin(guest())) {
                denied(admin, ResourceType.TOPIC, topic, AclOperation.ALL);
                Walk.soon("the denial", () -> !other.listTopics().names().get().contains(topic));
                Walk.fails(TopicAuthorizationException.class,
                    () -> other.describeTopics(List.of(topic)).allTopicNames().get());
                Walk.fails(TopicAuthorizationException.class,
                    () -> other.createPartitions(Map.of(topic, NewPartitions.increaseTo(2))).all().get());
                // Deleting is allowed: without an ACL on the cluster everybody has DELETE there, which is enough.
                other.deleteTopics(List.of(topic)).all().get();
            }
        });
        walk.step("security: a wrong password is told", () -> {
            try (Admin admin = walk.admin(as(GUEST, "wrong", ""))) {
                Walk.fails(SaslAuthenticationException.class, () -> admin.listTopics().names().get());
            }
        });
    }

    private static void tokens(Walk walk) {
        walk.step("security: a delegation token is made, logged in by, renewed and ended", () -> {
            try (Admin admin = walk.admin()) {
                DelegationToken token = admin.createDelegationToken(
                    // 3.9 knows the older name alone
                    new CreateDelegationTokenOptions().maxlifeTimeMs(Duration.ofHours(1).toMillis()))
                    .delegationToken().get();
                String id = token.tokenInfo().tokenId();
                Walk.soon("the token", () -> admin.describeDelegationToken().delegationTokens().get().stream()
                    .anyMatch(each -> each.tokenInfo().tokenId().equals(id)));
                String[] login = as(id, token.hmacAsBase64String(), " tokenauth=\"true\"");
                String topic = walk.topic(1);
                try (Admin holder = walk.admin(login)) {
                    Walk.soon("a login by the token", () -> holder.listTopics().names().get().contains(topic));
                }
                admin.renewDelegationToken(token.hmac(), new RenewDelegationTokenOptions().renewTimePeriodMs(60_000L))
                    .expiryTimestamp().get();
                admin.expireDelegationToken(token.hmac(), new ExpireDelegationTokenOptions().expiryTimePeriodMs(-1L))
                    .expiryTimestamp().get();
                Walk.soon("the end of the token", () -> admin.describeDelegationToken().delegationTokens().get()
                    .stream().noneMatch(each -> each.tokenInfo().tokenId().equals(id)));
                Walk.soon("no login any more", () -> {
                    try (Admin late = walk.admin(login)) {
                        Walk.fails(SaslAuthenticationException.class, () -> late.listTopics().names().get());
                    }
                    return true;
                });
            }
        });
    }
}
